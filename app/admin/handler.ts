// Responds to requests to the admin listener: health without a token, metrics and escalations with one.
import type { IncomingMessage, ServerResponse } from 'node:http'
import {
  type Clock,
  type Denied,
  type ErrorCode,
  type GivenVote,
  type Ids,
  isRefusal,
  type Logger,
  Refusal,
  type Reviewer,
  resolveOptional,
  services,
} from '@svc/core'
import { z } from 'zod'
import { isEscalationId, notFound, ReviewerEscalations } from '../escalations/reviewer-escalations.js'
import { jsonObjectIn, readBody } from '../http/body.js'
import { errorResponse } from '../http/error-response.js'
import { requestPath } from '../http/request-errors.js'
import { type BufferedResponse, noCall, refusalResponse, writeWhole } from '../http/response.js'
import type { GatewayMetrics } from '../metrics/gateway-metrics.js'
import type { ActivePolicy } from '../policy/active-policy.js'
import type { AdminAccess, AdminAuthorizer } from '../policy/admin-authorizer.js'
import { AccessRecords } from './access-records.js'
import { type FoundOperation, findOperation, type Operation } from './operation.js'

export interface AdminHandlerParts {
  readonly clock: Clock
  readonly ids: Ids
  readonly logger: Logger
  readonly metrics: Pick<GatewayMetrics, 'contentType' | 'text'>
  readonly operations: readonly Operation[]
  /** The policy in force at this moment. */
  activePolicy(): ActivePolicy
  draining(): boolean
}

/** RFC 6750 §2.1; the scheme's case does not matter. */
const bearer = /^bearer +([A-Za-z0-9\-._~+/]+=*) *$/i

/** Responses have current state and personal data: they must not be cached, nor sniffed as another type. */
const fixedHeaders = { 'cache-control': 'no-store', 'x-content-type-options': 'nosniff' }

/** Refusals for who the client is. */
const accessErrors: ReadonlySet<ErrorCode> = new Set(['UNAUTHENTICATED', 'TOOL_NOT_ALLOWED'])

export class AdminHandler {
  #parts: AdminHandlerParts
  #records: AccessRecords

  constructor(parts: AdminHandlerParts) {
    this.#parts = parts
    this.#records = new AccessRecords(parts.clock)
  }

  async handle(message: IncomingMessage, response: ServerResponse): Promise<void> {
    const { ids, logger } = this.#parts
    const traceId = ids.traceId()
    let buffered: BufferedResponse
    try {
      const result = await this.#response(message, traceId)
      buffered = 'kind' in result ? refusalResponse(result, noCall(traceId)) : result
    } catch (error) {
      buffered = errorResponse(error, { traceId, logger, realm: 'svc-admin' })
    }
    // The unread rest of a body would be parsed as the next request.
    const closes = !message.complete || this.#parts.draining()
    const headers = { ...buffered.headers, ...fixedHeaders, ...(closes ? { connection: 'close' } : {}) }
    writeWhole(response, { ...buffered, headers })
  }

  async #response(message: IncomingMessage, traceId: string): Promise<BufferedResponse | Denied> {
    checkOrigin(message)
    const { operations } = this.#parts
    const route = adminRouteOf(message.method ?? '', requestPath(message), operations)
    if (route.kind === 'health') return json({ status: 'ok' })
    if (route.kind === 'none') {
      const known = [...new Set([...paths, ...operations.map(({ path }) => path.replace(':id', '<id>'))])]
      throw new Refusal('TARGET_NOT_FOUND', `No such path; there are ${known.sort().join(', ')}.`)
    }
    const activePolicy = this.#parts.activePolicy()
    // A reload must not stop the stages while this request uses them.
    return activePolicy.hold(async () => {
      const { authorizer } = activePolicy
      if (authorizer === undefined) {
        throw new Refusal('TARGET_NOT_FOUND', 'The policy in force has no admin section.')
      }
      return this.#recorded(message, { route, traceId }, activePolicy, authorizer)
    })
  }

  /** Responds once the request, or its refusal, is recorded. */
  async #recorded(
    message: IncomingMessage,
    { route, traceId }: { readonly route: RecordedRoute; readonly traceId: string },
    activePolicy: ActivePolicy,
    authorizer: AdminAuthorizer,
  ): Promise<BufferedResponse | Denied> {
    let client: Reviewer | undefined
    const record = (refused?: ErrorCode) => {
      const { container } = activePolicy
      return this.#records.add({ route, path: requestPath(message), traceId, client, refused }, container)
    }
    let result: BufferedResponse | Denied
    try {
      if (route.kind === 'metrics' && authorizer.token === undefined) return await this.#metrics()
      client = await clientOf(message, activePolicy, authorizer)
      const access = authorizer.accessOf(client)
      if (route.kind === 'metrics') result = await this.#metrics(access)
      else if (route.kind === 'operation') result = await operate(message, route, access, client)
      else result = await this.#escalations(message, route, activePolicy, authorizer, client)
    } catch (error) {
      if (isRefusal(error) && accessErrors.has(error.code)) await record(error.code)
      throw error
    }
    if ('kind' in result) await record(result.code)
    else if (!hasOwnRecord(route)) await record()
    return result
  }

  async #metrics(access?: AdminAccess): Promise<BufferedResponse> {
    const { metrics } = this.#parts
    if (access?.readsMetrics === false) {
      throw new Refusal('TOOL_NOT_ALLOWED', 'None of your roles in admin.roles may read metrics.')
    }
    return { status: 200, headers: { 'content-type': metrics.contentType }, body: await metrics.text() }
  }

  async #escalations(
    message: IncomingMessage,
    route: Exclude<RecordedRoute, { kind: 'metrics' | 'operation' }>,
    { container }: ActivePolicy,
    authorizer: AdminAuthorizer,
    client: Reviewer,
  ): Promise<BufferedResponse | Denied> {
    const service = resolveOptional(container, services.escalations)
    if (service === undefined) {
      if (route.kind === 'list') return json({ escalations: [], more: false })
      throw notFound()
    }
    const escalations = new ReviewerEscalations(service, authorizer, client)
    if (route.kind === 'list') return json(await escalations.list(route.query))
    if (route.kind === 'show') return json(await escalations.show(route.id))
    if (route.kind === 'input') {
      const { text, sha256 } = await escalations.input(route.id)
      const headers = { 'content-type': 'application/json', etag: `"${sha256}"` }
      return { status: 200, headers, body: text }
    }
    const voted = await escalations.vote(route.id, await readVote(message))
    return 'kind' in voted ? voted : json(voted)
  }
}

/** Rejects with `Refusal`. */
async function operate(
  message: IncomingMessage,
  { operation, id }: FoundOperation,
  access: AdminAccess,
  client: Reviewer,
): Promise<BufferedResponse> {
  const { changes, body: schema, run } = operation
  if (changes ? !access.operates : !access.readsAll) {
    const roles = changes ? 'operator' : 'operator and auditor'
    throw new Refusal('TOOL_NOT_ALLOWED', `This is for ${roles}, and admin.roles gives you no such role.`)
  }
  const body = schema === undefined ? undefined : await readJson(message)
  return json(await run({ client, id, body }))
}

/** Web pages of other origins are refused, even with a token. */
function checkOrigin({ headers: { origin, host } }: IncomingMessage): void {
  if (origin === undefined || origin === `http://${host}` || origin === `https://${host}`) return
  throw new Refusal('TOOL_NOT_ALLOWED', 'A web page of this origin may not send requests here.')
}

/** Who sends the request. Rejects with `Refusal`. */
async function clientOf(
  message: IncomingMessage,
  { container }: ActivePolicy,
  authorizer: AdminAuthorizer,
): Promise<Reviewer> {
  if (message.headers.authorization === undefined) {
    throw new Refusal('UNAUTHENTICATED', 'Send "Authorization: Bearer <token>", your own or the admin token.')
  }
  if (await hasToken(message, authorizer)) return { kind: 'admin' }
  // Without OIDC only the admin token is valid, and authn's reason for refusing another would mislead.
  const identify = authorizer.tokenVotes ? undefined : resolveOptional(container, services.identify)
  const identity = await identify?.(message.headers)
  if (identity?.authenticated !== true) {
    const message =
      authorizer.token === undefined
        ? 'No token is valid here: the policy has neither admin.tokenRef nor authn.oidc.'
        : 'This is not the admin token.'
    throw new Refusal('UNAUTHENTICATED', message)
  }
  return { kind: 'user', identity }
}

async function hasToken({ headers }: IncomingMessage, { token }: AdminAuthorizer): Promise<boolean> {
  const [, presented] = bearer.exec(headers.authorization ?? '') ?? []
  if (token === undefined || presented === undefined) return false
  try {
    return await token.equals(presented)
  } catch (cause) {
    throw new Refusal('STORE_UNAVAILABLE', 'The admin token cannot be read.', { cause })
  }
}

function json(value: object): BufferedResponse {
  return {
    status: 200,
    headers: { 'content-type': 'application/json' },
    body: `${JSON.stringify(value)}\n`,
  }
}

/** A route to which the access is recorded. */
export type RecordedRoute =
  | { readonly kind: 'metrics' }
  | { readonly kind: 'list'; readonly query: URLSearchParams }
  | { readonly kind: 'show'; readonly id: string }
  | { readonly kind: 'input'; readonly id: string }
  | { readonly kind: 'vote'; readonly id: string }
  | ({ readonly kind: 'operation' } & FoundOperation)

/** Votes and changes by operators are recorded as what they are, polls of metrics not at all. */
function hasOwnRecord(route: RecordedRoute): boolean {
  if (route.kind === 'operation') return route.operation.changes
  return route.kind === 'metrics' || route.kind === 'vote'
}

type AdminRoute = RecordedRoute | { readonly kind: 'health' } | { readonly kind: 'none' }

const onePath = /^\/api\/escalations\/([^/]+)(\/votes|\/input)?$/

function adminRouteOf(method: string, url: string, operations: readonly Operation[]): AdminRoute {
  const [path = '', ...rest] = url.split('?')
  const found = findOperation(operations, method, path)
  if (found !== undefined) return { kind: 'operation', ...found }
  const [, one, part] = onePath.exec(path) ?? []
  if (one !== undefined && !isEscalationId(one)) return none
  if (method === 'POST') return one === undefined || part !== '/votes' ? none : { kind: 'vote', id: one }
  if (method !== 'GET' && method !== 'HEAD') return none
  if (path === '/healthz') return { kind: 'health' }
  if (path === '/metrics') return { kind: 'metrics' }
  if (path === '/api/escalations') return { kind: 'list', query: new URLSearchParams(rest.join('?')) }
  if (one === undefined || part === '/votes') return none
  return { kind: part === undefined ? 'show' : 'input', id: one }
}

const none: AdminRoute = { kind: 'none' }
const paths = ['/api/escalations', '/api/escalations/<id>', '/healthz', '/metrics']

const maxBodyBytes = 16_384
/** UTF-16 units. */
const maxComment = 1000

const voteSchema = z.strictObject({
  vote: z.enum(['approve', 'reject']),
  comment: z.string().optional(),
  input_sha256: z.string().optional(),
})

/** A web page cannot send this type to another origin unasked. Rejects with `Refusal`. */
async function readJson(message: IncomingMessage): Promise<object> {
  const type = message.headers['content-type'] ?? ''
  if (!/^application\/json *(;|$)/i.test(type)) {
    throw new Refusal('BAD_REQUEST', 'content-type: expected application/json.')
  }
  return jsonObjectIn(await readBody(message, maxBodyBytes))
}

/** `{ "vote": "approve" | "reject", "comment"?: string, "input_sha256"?: string }`. Rejects with `Refusal`. */
async function readVote(message: IncomingMessage): Promise<GivenVote> {
  const body = voteSchema.safeParse(await readJson(message))
  if (!body.success) {
    throw new Refusal(
      'BAD_REQUEST',
      'Expected {"vote": "approve" | "reject", "comment"?: string, "input_sha256"?: string}.',
    )
  }
  const { vote, comment, input_sha256: inputSha256 } = body.data
  if (comment !== undefined && comment.length > maxComment) {
    throw new Refusal('BAD_REQUEST', `comment: expected at most ${maxComment} characters.`)
  }
  return {
    vote,
    ...(comment === undefined ? {} : { comment }),
    ...(inputSha256 === undefined ? {} : { inputSha256 }),
  }
}
