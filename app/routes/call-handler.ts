// Runs a request to an endpoint as a call, and writes its outcome.
import type { Socket } from 'node:net'
import {
  after,
  type CallRequest,
  type Clock,
  type ErrorCode,
  errorFields,
  type Failed,
  type Ids,
  identity,
  type Logger,
  type MaybePromise,
  type Outcome,
  publicBaseUrl,
  Refusal,
} from '@svc/core'
import { CallControl } from '@svc/core/pipeline'
import type { TenantCallLimit, TenantConnections } from '../budget/use-limit.js'
import { writeAttempt } from '../escalations/elicitation/held-calls.js'
import { largeBodyBytes, skipBody } from '../http/body.js'
import { roomForBody } from '../http/body-room.js'
import { agentOf, repeatedHeader, traceOf } from '../http/call-headers.js'
import { type ClientExchange, writeOutcome } from '../http/client-exchange.js'
import { LISTEN_METHOD } from '../mcp/subject.js'
import type { ActivePolicy, PoliciesInForce, ServedCall } from '../policy/active-policy.js'
import { callerKey, dispatcher } from '../upstream/send.js'
import type { CallEndpoint } from './endpoints.js'

export interface CallHandlerOptions {
  readonly clock: Clock
  readonly ids: Ids
  readonly logger: Logger
  /** Logs what callers without an identity can cause. */
  readonly limitedLogger: Logger
  /** The tenant of calls without a token. */
  readonly tenant: string
  readonly tenantCallLimit: TenantCallLimit
  /** Limits the streams of notifications. */
  readonly tenantStreamLimit: TenantCallLimit
  readonly tenantConnections: TenantConnections
  readonly maxBodyBytes: number
  readonly policies: PoliciesInForce
}

/** Failures that do not mean that a part of the gateway is broken. */
const expectedFailures: ReadonlySet<ErrorCode> = new Set([
  'UPSTREAM',
  'UPSTREAM_UNREACHABLE',
  'DURATION_EXCEEDED',
  'PAYLOAD_TOO_LARGE',
  'RATE_LIMITED',
  'CANCELLED',
])

/** Writes the response of a call. */
type Respond<E extends CallEndpoint> = (
  call: CallControl,
  outcome: Outcome,
  endpoint: E,
  exchange: ClientExchange,
) => MaybePromise<void>

export class CallHandler {
  #options: CallHandlerOptions

  constructor(options: CallHandlerOptions) {
    this.#options = options
  }

  /** Writes the response of a call, into the stream of its client if that has begun. */
  readonly write = (
    call: CallControl,
    outcome: Outcome,
    endpoint: CallEndpoint,
    exchange: ClientExchange,
    isBodySkipped = false,
  ): MaybePromise<void> => {
    const { http } = exchange
    const isUnread = http?.complete === false
    if (isUnread && !isBodySkipped)
      return skipBody(http).then(() => this.write(call, outcome, endpoint, exchange, true))
    // A body that nobody reads, or an open connection during a drain, must not keep the connection in use.
    const closes = isUnread || this.#options.policies.isDraining
    if (closes && !exchange.isBegun) exchange.setHeader('connection', 'close')
    return endpoint.response !== undefined && exchange.isBegun
      ? writeAttempt(exchange, call, outcome, { encode: endpoint.encode, response: endpoint.response })
      : writeOutcome(exchange, call, outcome, endpoint.encode)
  }

  /** Runs a call and writes its response; the stages do not stop before `respond` has resolved. */
  run<E extends CallEndpoint>(
    exchange: ClientExchange,
    endpoint: E,
    policy: ActivePolicy,
    respond: Respond<E> = this.write,
  ): Promise<void> {
    return policy.serve(new HandledCall(this.#options, exchange, endpoint, policy, respond))
  }
}

/** A request while it is handled as a call. Releases what the call has taken at its end. */
class HandledCall<E extends CallEndpoint> implements ServedCall {
  readonly call: CallControl
  #options: CallHandlerOptions
  #exchange: ClientExchange
  #endpoint: E
  #policy: ActivePolicy
  #respond: Respond<E>
  #stopListening: () => void
  #refusal: Refusal | undefined
  #tenant = ''
  #limit: TenantCallLimit | undefined
  #freeRoom: (() => void) | undefined
  #hasEnded = false

  constructor(
    options: CallHandlerOptions,
    exchange: ClientExchange,
    endpoint: E,
    policy: ActivePolicy,
    respond: Respond<E>,
  ) {
    this.#options = options
    this.#exchange = exchange
    this.#endpoint = endpoint
    this.#policy = policy
    this.#respond = respond
    const { headers, protocol, target } = endpoint
    const { http } = exchange
    const { agent, refusal = http && repeatedHeader(http) } = agentOf(headers)
    this.#refusal = refusal
    this.call = new CallControl({
      protocol,
      headers,
      agent,
      trace: traceOf(headers, options.ids),
      target,
      receivedAt: options.clock.now(),
      read: this.#read,
    })
    if (http !== undefined) this.call.set(publicBaseUrl, () => policy.publicUrl.of(http))
    this.call.set(dispatcher, endpoint)
    endpoint.prepare?.(this.call)
    this.#stopListening = exchange.onDisconnect(() => this.#disconnect())
    // One of several calls for one request may begin after the caller has left.
    if (exchange.isDisconnected) this.#disconnect()
  }

  #disconnect(): void {
    this.call.disconnect()
    if (this.#endpoint.disconnectCancels?.() === true)
      this.call.abort('CANCELLED', 'The caller disconnected before the response.')
  }

  /** Reads the request within the limits of its tenant. Throws or rejects with `Refusal`. */
  readonly #read = (call: CallControl): MaybePromise<CallRequest> => {
    const { policies, tenantCallLimit, tenantStreamLimit, tenantConnections, maxBodyBytes } = this.#options
    if (policies.isDraining) throw new Refusal('DRAINING', 'The gateway is shutting down.')
    if (this.#refusal !== undefined) throw this.#refusal
    const { headers } = this.#endpoint
    if (headers.origin !== undefined) this.#policy.origins.check(headers)
    const tenant = call.get(identity)?.tenant ?? this.#options.tenant
    const { http } = this.#exchange
    if (http !== undefined && !tenantConnections.has(http.socket, tenant)) this.#admit(http.socket, tenant)
    this.#take(this.#endpoint.isStream === true ? tenantStreamLimit : tenantCallLimit, tenant)
    if (largeBodyBytes(http, maxBodyBytes) === 0) return this.#readBody(call)
    const user = { owner: tenant, member: callerKey(call) }
    return roomForBody(this.#exchange, user, maxBodyBytes, call.abortState).then((free) => {
      if (this.#hasEnded) free?.()
      else this.#freeRoom = free
      return this.#readBody(call)
    })
  }

  #readBody(call: CallControl): MaybePromise<CallRequest> {
    const reading = this.#endpoint.read(call)
    if (call.protocol !== 'mcp') return reading
    return after(reading, (request) => {
      // Only the body says that it opens a stream.
      if (request.method !== LISTEN_METHOD) return request
      this.#release()
      this.#take(this.#options.tenantStreamLimit, this.#tenant)
      return request
    })
  }

  /** Throws `Refusal` (`RATE_LIMITED`), and has the connection closed, if the tenant has too many. */
  #admit(socket: Socket, tenant: string): void {
    const { remoteAddress } = socket
    // A connection that has closed already has no address, and that of a proxy is of many clients.
    if (remoteAddress === undefined || this.#policy.publicUrl.isProxy(remoteAddress)) return
    if (this.#options.tenantConnections.admit(socket, tenant)) return
    // One of several calls for one request may come after the head of its response.
    if (!this.#exchange.isBegun) this.#exchange.setHeader('connection', 'close')
    throw new Refusal('RATE_LIMITED', 'The tenant has as many connections as it may have.')
  }

  /** Counts the call until it ends; not at all if it has ended. Throws `Refusal` (`RATE_LIMITED`). */
  #take(limit: TenantCallLimit, tenant: string): void {
    if (!limit.take(tenant)) throw limit.refusal
    this.#tenant = tenant
    this.#limit = limit
    if (this.#hasEnded) this.#release()
  }

  #release(): void {
    this.#limit?.release(this.#tenant)
    this.#limit = undefined
    this.#freeRoom?.()
    this.#freeRoom = undefined
  }

  respond(outcome: Outcome): MaybePromise<void> {
    this.#stopListening()
    if (outcome.kind === 'failed') this.#logFailure(outcome)
    return this.#respond(this.call, outcome, this.#endpoint, this.#exchange)
  }

  ended(): void {
    this.#hasEnded = true
    this.#release()
  }

  /** The record has every call; the log has the failures that an operator must repair. */
  #logFailure({ cause, code }: Failed): void {
    const { logger, limitedLogger } = this.#options
    const fields = { ...errorFields(this.call, cause), code }
    if (expectedFailures.has(code)) logger.debug(fields, 'call ended without a response')
    else (this.call.get(identity) === undefined ? limitedLogger : logger).error(fields, 'call failed')
  }
}
