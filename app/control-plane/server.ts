// The reference control plane (contract.md §4.1): tells a client who it is and where to put its bytes. The
// bytes themselves never pass through it.
import { randomBytes } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { isRefusal, type Logger, Refusal } from '@svc/core'
import { messageOf, parseJson } from '@svc/core/json'
import { readBody, skipBody } from '../http/body.js'
import { HttpServer } from '../http/server.js'
import type { KeyOwner, KeyRing } from './key-file.js'
import type { ObjectToPut, Presigned } from './store.js'
import { judgeUpload } from './upload-request.js'

/** Bodies are a few hundred bytes; keys are at most 1024. */
const MAX_BODY_BYTES = 16_384
const DRAIN_MS = 5_000

const statuses = {
  BAD_REQUEST: 400,
  UNAUTHENTICATED: 401,
  FORBIDDEN: 403,
  NOT_FOUND: 404,
  METHOD_NOT_ALLOWED: 405,
  PAYLOAD_TOO_LARGE: 413,
  INTERNAL: 500,
  STORE_UNAVAILABLE: 503,
} as const

interface Answer {
  readonly status: number
  readonly body: object
  readonly headers?: Readonly<Record<string, string>>
}

export interface ControlPlaneParts {
  readonly keys: Pick<KeyRing, 'ownerOf'>
  readonly store: { presign(object: ObjectToPut): Promise<Presigned> }
  readonly logger: Logger
}

export interface ControlPlaneHandle {
  readonly port: number
  readonly url: string
  close(): Promise<void>
}

export async function startControlPlane(
  parts: ControlPlaneParts,
  address: { host: string; port: number },
): Promise<ControlPlaneHandle> {
  const limits = {
    ...address,
    maxHeaderBytes: 16_384,
    headersTimeoutMs: 10_000,
    requestTimeoutMs: 15_000,
    keepAliveTimeoutMs: 30_000,
  }
  const server = new HttpServer(limits, (message, response) => serve(parts, message, response), parts.logger)
  const { port, url } = await server.listen()
  return { port, url, close: () => server.close(DRAIN_MS) }
}

async function serve(
  parts: ControlPlaneParts,
  message: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const traceId = randomBytes(16).toString('hex')
  let answer: Answer
  try {
    answer = await answerTo(parts, message, traceId)
  } catch (fault) {
    const refused = isRefusal(fault)
    if (!refused) parts.logger.error({ trace_id: traceId, err: fault }, 'a request failed')
    answer = refused
      ? refuse(fault.code === 'PAYLOAD_TOO_LARGE' ? fault.code : 'BAD_REQUEST', fault.message, traceId)
      : refuse('INTERNAL', 'The request could not be answered.', traceId)
  }
  if (!message.complete) await skipBody(message)
  const text = `${JSON.stringify(answer.body)}\n`
  response.writeHead(answer.status, {
    ...answer.headers,
    'content-type': 'application/json',
    'content-length': Buffer.byteLength(text),
    'cache-control': 'no-store',
    // What was not read of a refused body would be taken for the next request.
    ...(message.complete ? {} : { connection: 'close' }),
  })
  response.end(text)
}

async function answerTo(
  { keys, store, logger }: ControlPlaneParts,
  message: IncomingMessage,
  traceId: string,
): Promise<Answer> {
  const { pathname } = new URL(message.url ?? '/', 'http://control-plane')
  if (pathname === '/healthz') return { status: 200, body: { status: 'ok' } }
  if (pathname !== '/api/auth/validate-key' && pathname !== '/api/svc/upload-url') {
    return refuse('NOT_FOUND', 'There is no such path.', traceId)
  }
  if (message.method !== 'POST') {
    return {
      ...refuse('METHOD_NOT_ALLOWED', 'Only POST is answered here.', traceId),
      headers: { allow: 'POST' },
    }
  }
  const owner = ownerOf(keys, message.headers.authorization)
  if (owner === undefined) {
    logger.warn({ trace_id: traceId, path: pathname }, 'refused a key')
    return {
      ...refuse('UNAUTHENTICATED', 'The API key is missing or unknown; expected Bearer <API_KEY>.', traceId),
      headers: { 'www-authenticate': 'Bearer' },
    }
  }
  const body = jsonOf(await readBody(message, MAX_BODY_BYTES))
  if (pathname === '/api/auth/validate-key') return { status: 200, body: owner }
  const judged = judgeUpload(body, owner)
  if (judged.verdict !== 'ok') {
    logger.warn({ trace_id: traceId, tenant: owner.tenant, reason: judged.why }, 'refused an upload')
    return refuse(judged.verdict === 'bad' ? 'BAD_REQUEST' : 'FORBIDDEN', judged.why, traceId)
  }
  try {
    return { status: 200, body: await store.presign(judged.request) }
  } catch (fault) {
    logger.error({ trace_id: traceId, err: fault }, 'no URL could be signed')
    return refuse('STORE_UNAVAILABLE', 'No upload URL could be signed.', traceId)
  }
}

function ownerOf(keys: Pick<KeyRing, 'ownerOf'>, header: string | undefined): KeyOwner | undefined {
  const [, key] = /^bearer +([\x21-\x7e]{1,4096})$/i.exec(header ?? '') ?? []
  return key === undefined ? undefined : keys.ownerOf(key)
}

function jsonOf(bytes: Uint8Array): unknown {
  try {
    return parseJson(bytes)
  } catch (cause) {
    throw new Refusal('BAD_REQUEST', `The body is not JSON: ${messageOf(cause)}`, { cause })
  }
}

function refuse(error: keyof typeof statuses, message: string, traceId: string): Answer {
  return { status: statuses[error], body: { error, message, trace_id: traceId } }
}
