// The HTTP interface of the reference control plane (openapi.yaml): tells a client who it is, where to put and get its
// bytes, and which objects it has. The bytes never pass through it.
import { randomBytes } from 'node:crypto'
import type { Logger } from '@svc/core'
import { messageOf, parseJson } from '@svc/core/json'
import { whyNotContinued } from './continuation.js'
import { type JsonResponse, type ListeningServer, listen, type Request } from './http.js'
import type { KeyGrant, KeyRing } from './key-file.js'
import type { Store } from './objects.js'
import { downloadIn, listingIn, RefusedRequest, uploadIn } from './requests.js'

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

interface ServerDependencies {
  readonly keys: Pick<KeyRing, 'grantOf'>
  readonly store: Pick<Store, 'presign' | 'presignDownload' | 'list'>
  readonly logger: Logger
}

type Action = (body: unknown, grant: KeyGrant, store: ServerDependencies['store']) => Promise<object>

/** The actions by path. Each rejects with `RefusedRequest`. */
const actions: Readonly<Record<string, Action>> = {
  '/api/auth/validate-key': async (_, { owner }) => owner,
  async '/api/svc/upload-url'(body, { owner, access }, store) {
    if (access !== 'write') throw new RefusedRequest('FORBIDDEN', 'this API key may not upload')
    const request = uploadIn(body, owner)
    const why = await whyNotContinued(request, owner, store)
    if (why !== undefined) throw new RefusedRequest('BAD_REQUEST', why)
    return store.presign(request)
  },
  async '/api/svc/download-url'(body, { owner, access }, store) {
    if (access === 'read') return store.presignDownload(downloadIn(body, owner).key)
    const why = 'this API key may not download; add-key --read makes one that may'
    throw new RefusedRequest('FORBIDDEN', why)
  },
  '/api/svc/objects': async (body, { owner }, store) => store.list(listingIn(body, owner)),
}

export type ControlPlaneHandle = ListeningServer

export function startServer(
  dependencies: ServerDependencies,
  address: { host: string; port: number },
): Promise<ControlPlaneHandle> {
  return listen(async (request) => {
    const traceId = randomBytes(16).toString('hex')
    try {
      return await respondTo(dependencies, request, traceId)
    } catch (error) {
      dependencies.logger.error({ trace_id: traceId, err: error }, 'a request failed')
      return refuse('INTERNAL', 'The request could not be handled.', traceId)
    }
  }, address)
}

async function respondTo(
  { keys, store, logger }: ServerDependencies,
  { path, method, authorization, body }: Request,
  traceId: string,
): Promise<JsonResponse> {
  if (path === '/healthz') return { status: 200, body: { status: 'ok' } }
  const action = Object.hasOwn(actions, path) ? actions[path] : undefined
  if (action === undefined) return refuse('NOT_FOUND', 'There is no such path.', traceId)
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
  } catch (error) {
    return refuse('BAD_REQUEST', `The body is not JSON: ${messageOf(error)}`, traceId)
  }
  try {
    return { status: 200, body: await action(value, grant, store) }
  } catch (error) {
    if (error instanceof RefusedRequest) {
      const { code, message: reason } = error
      logger.warn({ trace_id: traceId, path, tenant: grant.owner.tenant, reason }, 'refused a request')
      return refuse(code, reason, traceId)
    }
    logger.error({ trace_id: traceId, path, err: error }, 'the store could not be used')
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
): JsonResponse {
  return { status: statuses[error], body: { error, message, trace_id: traceId }, headers }
}
