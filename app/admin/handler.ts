// Responds to requests to the admin listener: health without a token, the operations of the API with one, and the console.
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http'
import {
  type Clock,
  type Denied,
  type ErrorCode,
  type Identity,
  type Ids,
  isRefusal,
  type Logger,
  type Meter,
  Refusal,
  type Reviewer,
} from '@svc/core'
import { errorResponse } from '../http/error-response.js'
import { requestPath } from '../http/request-errors.js'
import { type BufferedResponse, noCall, refusalResponse, writeWhole } from '../http/response.js'
import type { ActivePolicy } from '../policy/active-policy.js'
import { type AdminAccess, type AdminAuthorizer, isReader } from '../policy/admin-authorizer.js'
import { AccessRecords } from './access-records.js'
import { bodyRefusal, readJson } from './body.js'
import { type AdminExchange, clientOf } from './client.js'
import { EventStreams } from './event-stream.js'
import { fixedHeaders } from './fixed-headers.js'
import {
  type AccessLevel,
  AdminEventStream,
  type FoundOperation,
  findOperation,
  type Operation,
  type OperationRequest,
  PlainResponse,
} from './operation.js'
import type { AdminConsole } from './session.js'
import { TokenGuesses } from './token-guesses.js'

export interface AdminHandlerOptions {
  readonly clock: Clock
  readonly ids: Ids
  readonly logger: Logger
  readonly meter: Pick<Meter, 'count'>
  readonly operations: readonly Operation[]
  /** Loaded when it is first used. */
  console(): Promise<AdminConsole>
  /** The policy in force at this moment. */
  activePolicy(): ActivePolicy
  draining(): boolean
  /** Why an operator's block refuses this person; undefined if none does. */
  blockOf(identity: Identity): string | undefined
}

/** A result that took longer to read is sent only to a client that may still read it, in milliseconds. */
const BELIEVED_MS = 2_000

/** Codes of refusals because of the client's identity or rights. */
const accessErrors: ReadonlySet<ErrorCode> = new Set(['UNAUTHENTICATED', 'TOOL_NOT_ALLOWED', 'RATE_LIMITED'])

export class AdminHandler {
  #options: AdminHandlerOptions
  #records: AccessRecords
  #streams = new EventStreams()
  #guesses: TokenGuesses

  constructor(options: AdminHandlerOptions) {
    this.#options = options
    this.#records = new AccessRecords(options.clock)
    this.#guesses = new TokenGuesses(options)
  }

  async handle(message: IncomingMessage, response: ServerResponse): Promise<void> {
    const traceId = this.#options.ids.traceId()
    const result = await this.#settled(traceId, () => this.#response(message, traceId))
    if (result instanceof AdminEventStream) {
      await this.#streams.write(response, result)
      return
    }
    // The unread rest of a body would be parsed as the next request.
    const closes = !message.complete || this.#options.draining()
    const headers = { ...fixedHeaders, ...result.headers, ...(closes ? { connection: 'close' } : {}) }
    writeWhole(response, { ...result, headers })
  }

  /** Ends the responses that do not end by themselves. */
  close(): void {
    this.#streams.close()
  }

  /** Never rejects. */
  async #settled<T extends AdminEventStream = never>(
    traceId: string,
    respond: () => Promise<BufferedResponse | Denied | T>,
  ): Promise<BufferedResponse | T> {
    try {
      const result = await respond()
      return 'kind' in result ? refusalResponse(result, noCall(traceId)) : result
    } catch (error) {
      return errorResponse(error, { traceId, logger: this.#options.logger, realm: 'svc-admin' })
    }
  }

  async #response(message: IncomingMessage, traceId: string): Promise<AdminResponse> {
    checkOrigin(message)
    const method = message.method ?? ''
    const url = requestPath(message)
    const [path = ''] = url.split('?')
    if (path === '/healthz' && (method === 'GET' || method === 'HEAD')) return json({ status: 'ok' })
    const found = path === '/console' || path.startsWith('/console/') ? undefined : this.#find(method, url)
    // A body may end long after its beginning: the policy and the client count that are valid then.
    const isChange = found !== undefined && found.operation.method !== 'GET'
    const unread = isChange ? await bodyRefusal(message) : undefined
    const activePolicy = this.#options.activePolicy()
    // A reload must not stop the stages while this request uses them.
    return activePolicy.hold(async () => {
      const { authorizer } = activePolicy
      if (authorizer === undefined) throw noAdmin()
      const exchange = { traceId, policy: activePolicy, authorizer }
      if (found === undefined) {
        const console = await this.#options.console()
        return console.respond(message, {
          ...exchange,
          readJson: () => readJson(message),
          ask: (identify, asked) => this.#ask({ method: 'GET', url: asked, identify, exchange }),
          signIn: (identify, key) =>
            this.#ask({ method: 'POST', url: '/api/session', identify, exchange, body: { key } }),
        })
      }
      const findSession = async (one: IncomingMessage, now: AdminExchange) =>
        (await this.#options.console()).sessionOf(one, now)
      const parts = { findSession, guesses: this.#guesses }
      const identify: Identify = (now, known) =>
        clientOf({ message, operation: found.operation, exchange: now, known }, parts)
      const { headers } = message
      return this.#run(found, identify, exchange, { headers, unread, readJson: () => readJson(message) })
    })
  }

  /** Responds to a request of the console itself. Never rejects. */
  #ask({ method, url, identify, exchange, body = {} }: OwnRequest): Promise<BufferedResponse> {
    return this.#settled<never>(exchange.traceId, async () => {
      const given = { headers: {}, readJson: async () => body }
      const result = await this.#run(this.#find(method, url), identify, exchange, given)
      if (result instanceof AdminEventStream) throw new Error('a page waits for no events')
      return result
    })
  }

  /** @throws {Refusal} */
  #find(method: string, url: string): FoundRequest {
    const { operations } = this.#options
    const found = findOperation(operations, method, url)
    if (found !== undefined) return { ...found, url }
    const known = [
      ...new Set(['/healthz', '/console', ...operations.map(({ path }) => path.replace(':id', '<id>'))]),
    ]
    throw new Refusal('TARGET_NOT_FOUND', `No such path; there are ${known.sort().join(', ')}.`)
  }

  /** Responds once the request, or its refusal, is recorded. */
  async #run(
    { operation, id, query, url }: FoundRequest,
    identify: Identify,
    exchange: AdminExchange,
    { headers, unread, readJson }: GivenRequest,
  ): Promise<AdminResponse> {
    const { traceId, policy, authorizer } = exchange
    let client: Reviewer | undefined
    const record = (refused?: ErrorCode, { container } = policy) =>
      this.#records.add({ operation, id, path: url, traceId, client, refused }, container)
    let result: object
    try {
      const isOpen = operation.access === 'metrics' && authorizer.token === undefined
      client = isOpen
        ? { kind: 'admin' }
        : await identify(exchange, (known) => {
            client = known
          })
      const access = this.#accessOf(client, operation.access, authorizer)
      if (unread !== undefined) throw unread
      const body = operation.body === undefined ? undefined : await readJson()
      const recordRefusal = (part: string, code: ErrorCode) =>
        this.#records.add(
          { operation, id: part, path: `${url}#${part}`, traceId, client, refused: code },
          policy.container,
        )
      const request = { client, access, authorizer, policy, headers, id, query, body, recordRefusal }
      const again = this.#again(operation, request, (now) => identify({ traceId, ...now }), record)
      const begun = this.#options.clock.monotonic()
      result = await operation.run({ ...request, again })
      const isLong = this.#options.clock.monotonic() - begun > BELIEVED_MS
      // A change has its effect already, and its proof counts once.
      if (isLong && !isOpen && operation.method === 'GET') await again(async () => undefined)
    } catch (error) {
      // An object that the client may not see looks like one that does not exist, so both refusals are recorded.
      const isRecorded =
        isRefusal(error) && (error === unread || accessErrors.has(error.code) || isHidden(error.code, id))
      if (isRecorded) await record(error.code)
      throw error
    }
    if (isDenied(result)) await record(result.code)
    else if (operation.isUnrecorded !== true) await record()
    if (result instanceof PlainResponse) return result.buffered
    if (result instanceof AdminEventStream) return result
    return isDenied(result) ? result : json(result)
  }

  #again(
    { access: level }: Operation,
    request: Omit<OperationRequest, 'again'>,
    identify: (now: Omit<AdminExchange, 'traceId'>) => Promise<Reviewer>,
    record: (refused: ErrorCode, now: ActivePolicy) => Promise<void>,
  ): OperationRequest['again'] {
    const again: OperationRequest['again'] = (use) => {
      const policy = this.#options.activePolicy()
      return policy.hold(async () => {
        const { authorizer } = policy
        if (authorizer === undefined) throw noAdmin()
        try {
          const client = await identify({ policy, authorizer })
          const access = this.#accessOf(client, level, authorizer)
          return await use({ ...request, client, access, authorizer, policy, again })
        } catch (error) {
          // The request itself is on record as allowed.
          if (isRefusal(error) && accessErrors.has(error.code)) await record(error.code, policy)
          throw error
        }
      })
    }
    return again
  }

  /** @throws {Refusal} `TOOL_NOT_ALLOWED` */
  #accessOf(client: Reviewer, level: AccessLevel, authorizer: AdminAuthorizer): AdminAccess {
    const block = client.kind === 'user' ? this.#options.blockOf(client.identity) : undefined
    if (block !== undefined) throw new Refusal('TOOL_NOT_ALLOWED', block)
    const access = authorizer.accessOf(client)
    checkAccess(level, access)
    return access
  }
}

type Identify = (now: AdminExchange, known?: (client: Reviewer) => void) => Promise<Reviewer>

/** A request of the console itself. */
interface OwnRequest {
  readonly method: 'GET' | 'POST'
  readonly url: string
  readonly identify: Identify
  readonly exchange: AdminExchange
  readonly body?: object
}

interface GivenRequest {
  readonly headers: IncomingHttpHeaders
  /** Why the body could not be read. */
  readonly unread?: unknown
  /** Rejects with `Refusal`. */
  readJson(): Promise<object>
}

function isHidden(code: ErrorCode, id: string | undefined): boolean {
  return code === 'TARGET_NOT_FOUND' && id !== undefined
}

type AdminResponse = BufferedResponse | Denied | AdminEventStream

function noAdmin(): Refusal {
  return new Refusal('TARGET_NOT_FOUND', 'The policy in force has no admin section.')
}

interface FoundRequest extends FoundOperation {
  readonly url: string
}

/** Rejects with `Refusal`. */
function checkAccess(level: AccessLevel, access: AdminAccess): void {
  const { operates, readsAll, readsMetrics } = access
  const missing = {
    'signed-in': undefined,
    reader: isReader(access)
      ? undefined
      : 'None of your roles is in admin.roles, and you are in no approval set.',
    metrics: readsMetrics ? undefined : 'None of your roles in admin.roles may read metrics.',
    auditor: readsAll
      ? undefined
      : 'This is for operator and auditor, and admin.roles gives you no such role.',
    operator: operates ? undefined : 'This is for operator, and admin.roles gives you no such role.',
  }[level]
  if (missing !== undefined) throw new Refusal('TOOL_NOT_ALLOWED', missing)
}

function isDenied(result: object): result is Denied {
  return 'kind' in result && result.kind === 'denied'
}

/** Web pages of other origins are refused, even with a token. */
function checkOrigin({ headers: { origin, host } }: IncomingMessage): void {
  if (origin === undefined || origin === `http://${host}` || origin === `https://${host}`) return
  throw new Refusal('TOOL_NOT_ALLOWED', 'A web page of this origin may not send requests here.')
}

function json(value: object): BufferedResponse {
  return {
    status: 200,
    headers: { 'content-type': 'application/json' },
    body: `${JSON.stringify(value)}\n`,
  }
}
