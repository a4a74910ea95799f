// The HTTP interface of the reference control plane (openapi.yaml): tells a client who it is and where to put
// its bytes. The bytes never pass through it.
import { randomBytes } from 'node:crypto'
import type { Logger } from '@svc/core'
import { messageOf, parseJson } from '@svc/core/json'
import { type Answer, type ListeningServer, listen, type Request } from './http.js'
import type { KeyOwner, KeyRing } from './key-file.js'
import type { ObjectToPut, Presigned } from './store.js'
import { judgeUpload } from './upload-request.js'

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

interface ServerParts {
  readonly keys: Pick<KeyRing, 'ownerOf'>
  readonly store: { presign(object: ObjectToPut): Promise<Presigned> }
  readonly logger: Logger
}

export type ControlPlaneHandle = ListeningServer

export function startServer(
  parts: ServerParts,
  address: { host: string; port: number },
): Promise<ControlPlaneHandle> {
  return listen(async (request) => {
    const traceId = randomBytes(16).toString('hex')
    try {
      return await answerTo(parts, request, traceId)
    } catch (fault) {
      parts.logger.error({ trace_id: traceId, err: fault }, 'a request failed')
      return refuse('INTERNAL', 'The request could not be answered.', traceId)
    }
  }, address)
}

async function answerTo(
  { keys, store, logger }: ServerParts,
  { path, method, authorization, body }: Request,
  traceId: string,
): Promise<Answer> {
  if (path === '/healthz') return { status: 200, body: { status: 'ok' } }
  if (path !== '/api/auth/validate-key' && path !== '/api/svc/upload-url') {
    return refuse('NOT_FOUND', 'There is no such path.', traceId)
  }
  if (method !== 'POST') {
    return refuse('METHOD_NOT_ALLOWED', 'The only method here is POST.', traceId, { allow: 'POST' })
  }
  const owner = ownerOf(keys, authorization)
  if (owner === undefined) {
    logger.warn({ trace_id: traceId, path }, 'refused a key')
    return refuse(
      'UNAUTHENTICATED',
      'The API key is missing or unknown; expected Bearer <API_KEY>.',
      traceId,
      { 'www-authenticate': 'Bearer' },
    )
  }
  if (body === undefined) return refuse('PAYLOAD_TOO_LARGE', 'The body is too long.', traceId)
  let value: unknown
  try {
    value = parseJson(body)
  } catch (fault) {
    return refuse('BAD_REQUEST', `The body is not JSON: ${messageOf(fault)}`, traceId)
  }
  if (path === '/api/auth/validate-key') return { status: 200, body: owner }
  const judged = judgeUpload(value, owner)
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

function refuse(
  error: keyof typeof statuses,
  message: string,
  traceId: string,
  headers: Readonly<Record<string, string>> = {},
): Answer {
  return { status: statuses[error], body: { error, message, trace_id: traceId }, headers }
}
