// The HTTP interface of the reference control plane (openapi.yaml): tells a client who it is, where to put and get its
// bytes, and which objects it has. The bytes never pass through it.
import { randomBytes } from 'node:crypto'
import type { Logger } from '@svc/core'
import { messageOf, parseJson } from '@svc/core/json'
import { whyNotContinued } from './continuation.js'
import { type Answer, type ListeningServer, listen, type Request } from './http.js'
import type { KeyGrant, KeyRing } from './key-file.js'
import { judgeDownload, judgeListing, judgeUpload } from './requests.js'
import type { Store } from './store.js'

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
  readonly keys: Pick<KeyRing, 'grantOf'>
  readonly store: Pick<Store, 'presign' | 'presignDownload' | 'list'>
  readonly logger: Logger
}

/** What a request asks of the store, or why it is refused. */
type Judged =
  /** `whyNot`: what the store has speaks against the request. */
  | { readonly verdict: 'ok'; whyNot?(): Promise<string | undefined>; answer(): Promise<object> }
  | { readonly verdict: 'bad' | 'forbidden'; readonly why: string }

type Judge = (body: unknown, grant: KeyGrant, store: ServerParts['store']) => Judged

const judges: Readonly<Record<string, Judge>> = {
  '/api/auth/validate-key': (_, { owner }) => ({ verdict: 'ok', answer: async () => owner }),
  '/api/svc/upload-url': (body, { owner, access }, store) =>
    access === 'write'
      ? permitted(
          judgeUpload(body, owner),
          (request) => store.presign(request),
          (request) => whyNotContinued(request, owner, store),
        )
      : { verdict: 'forbidden', why: 'this API key may not upload' },
  '/api/svc/download-url': (body, { owner, access }, store) =>
    access === 'read'
      ? permitted(judgeDownload(body, owner), ({ key }) => store.presignDownload(key))
      : { verdict: 'forbidden', why: 'this API key may not download; add-key --read makes one that may' },
  '/api/svc/objects': (body, { owner }, store) =>
    permitted(judgeListing(body, owner), (request) => store.list(request)),
}

function permitted<T>(
  judged: { readonly verdict: 'ok'; readonly request: T } | Exclude<Judged, { verdict: 'ok' }>,
  answer: (request: T) => Promise<object>,
  whyNot: (request: T) => Promise<string | undefined> = async () => undefined,
): Judged {
  if (judged.verdict !== 'ok') return judged
  const { request } = judged
  return { verdict: 'ok', whyNot: () => whyNot(request), answer: () => answer(request) }
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
  const judge = Object.hasOwn(judges, path) ? judges[path] : undefined
  if (judge === undefined) {
    return refuse('NOT_FOUND', 'There is no such path.', traceId)
  }
  if (method !== 'POST') {
    return refuse('METHOD_NOT_ALLOWED', 'The only method here is POST.', traceId, { allow: 'POST' })
  }
  const grant = grantOf(keys, authorization)
  if (grant === undefined) {
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
  const { owner } = grant
  const judged = judge(value, grant, store)
  if (judged.verdict !== 'ok') {
    logger.warn({ trace_id: traceId, path, tenant: owner.tenant, reason: judged.why }, 'refused a request')
    return refuse(judged.verdict === 'bad' ? 'BAD_REQUEST' : 'FORBIDDEN', judged.why, traceId)
  }
  try {
    const why = await judged.whyNot?.()
    if (why !== undefined) {
      logger.warn({ trace_id: traceId, path, tenant: owner.tenant, reason: why }, 'refused a request')
      return refuse('BAD_REQUEST', why, traceId)
    }
    return { status: 200, body: await judged.answer() }
  } catch (fault) {
    logger.error({ trace_id: traceId, path, err: fault }, 'the store could not be used')
    return refuse('STORE_UNAVAILABLE', 'The store could not be used.', traceId)
  }
}

function grantOf(keys: Pick<KeyRing, 'grantOf'>, header: string | undefined): KeyGrant | undefined {
  const [, key] = /^bearer +([\x21-\x7e]{1,4096})$/i.exec(header ?? '') ?? []
  return key === undefined ? undefined : keys.grantOf(key)
}

function refuse(
  error: keyof typeof statuses,
  message: string,
  traceId: string,
  headers: Readonly<Record<string, string>> = {},
): Answer {
  return { status: statuses[error], body: { error, message, trace_id: traceId }, headers }
}
