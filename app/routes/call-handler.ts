// Runs a request to an endpoint as a call, and writes its outcome.
import type { Socket } from 'node:net'
import {
  type Call,
  type CallRequest,
  type Clock,
  type ErrorCode,
  errorFields,
  type Ids,
  identity,
  isPending,
  type Logger,
  type MaybePromise,
  type Outcome,
  publicBaseUrl,
  Refusal,
} from '@svc/core'
import { CallControl } from '@svc/core/pipeline'
import { skipBody } from '../http/body.js'
import { roomForBody } from '../http/body-room.js'
import { agentOf, repeatedHeader, traceOf } from '../http/call-headers.js'
import type { ClientExchange } from '../http/client-exchange.js'
import type { PublicUrl } from '../http/public-url.js'
import { writeOutcome } from '../http/write-outcome.js'
import { LISTEN_METHOD } from '../mcp/subject.js'
import type { ActivePolicy } from '../policy/active-policy.js'
import { dispatch } from '../upstream/dispatch-slot.js'
import { callerKey } from '../upstream/send.js'
import type { CallEndpoint } from './endpoints.js'
import type { TenantCallLimit, TenantConnections } from './tenant-limits.js'

export interface CallHandlerParts {
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
  draining(): boolean
}

/** Releases what a call has taken, at its end, and at once what it takes later. */
class CallSlot {
  #release: (() => void)[] = []
  #hasEnded = false

  add(release: () => void): void {
    if (this.#hasEnded) release()
    else this.#release.push(release)
  }

  release(): void {
    for (const release of this.#release.splice(0)) release()
  }

  end(): void {
    this.#hasEnded = true
    this.release()
  }
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

export class CallHandler {
  #parts: CallHandlerParts

  constructor(parts: CallHandlerParts) {
    this.#parts = parts
  }

  /** The response of a call for which `waits` returns true is not written. */
  handle(
    exchange: ClientExchange,
    endpoint: CallEndpoint,
    policy: ActivePolicy,
    waits?: (call: CallControl, outcome: Outcome) => boolean,
  ): Promise<void> {
    return this.run(exchange, endpoint, policy, (call, outcome) => {
      if (waits?.(call, outcome) === true) return
      const { http } = exchange
      const isUnread = http?.complete === false
      const write = (): MaybePromise<void> => {
        // A body that nobody reads, or an open connection during a drain, must not keep the connection in use.
        const closes = http?.complete === false || this.#parts.draining()
        if (closes && !exchange.isBegun) exchange.setHeader('connection', 'close')
        return (
          endpoint.write?.(exchange, call, outcome) ??
          writeOutcome(exchange, call, outcome, (refused) => endpoint.encode(refused, call))
        )
      }
      return isUnread ? skipBody(http).then(write) : write()
    })
  }

  /** Runs one call; the stages do not stop before `respond` has resolved. */
  run(
    exchange: ClientExchange,
    endpoint: CallEndpoint,
    policy: ActivePolicy,
    respond: (call: CallControl, outcome: Outcome) => MaybePromise<void>,
  ): Promise<void> {
    const counted = new CallSlot()
    const call = this.#call(exchange, endpoint, policy, counted)
    const disconnect = (): void => {
      call.disconnect()
      if (endpoint.disconnectCancels?.()) {
        call.abort('CANCELLED', 'The caller disconnected before the response.')
      }
    }
    const stopListening = exchange.onDisconnect(disconnect)
    // One of several calls for one request may begin after the caller has left.
    if (exchange.isDisconnected) disconnect()
    const respondTo = (outcome: Outcome): MaybePromise<void> => {
      stopListening()
      this.#logFailure(call, outcome)
      return respond(call, outcome)
    }
    return policy.serve(call, respondTo, () => counted.end())
  }

  #call(
    exchange: ClientExchange,
    endpoint: CallEndpoint,
    { origins, publicUrl }: ActivePolicy,
    counted: CallSlot,
  ): CallControl {
    const { headers, protocol, target } = endpoint
    const { http } = exchange
    const { agent, refusal = http && repeatedHeader(http) } = agentOf(headers)
    const call: CallControl = new CallControl({
      protocol,
      headers,
      agent,
      trace: traceOf(headers, this.#parts.ids),
      target,
      receivedAt: this.#parts.clock.now(),
      read: (reading) => {
        if (this.#parts.draining()) throw new Refusal('DRAINING', 'The gateway is shutting down.')
        if (refusal !== undefined) throw refusal
        origins.check(headers)
        return this.#read(reading, exchange, endpoint, { publicUrl, counted })
      },
    })
    if (http !== undefined) call.set(publicBaseUrl, () => publicUrl.of(http))
    call.set(dispatch, endpoint.dispatch)
    endpoint.prepare?.(call)
    return call
  }

  /** Reads the request within the limits of its tenant. Rejects with `Refusal`. */
  async #read(
    call: CallControl,
    exchange: ClientExchange,
    endpoint: CallEndpoint,
    { publicUrl, counted }: { readonly publicUrl: PublicUrl; readonly counted: CallSlot },
  ): Promise<CallRequest> {
    const { http } = exchange
    const { tenantCallLimit, tenantStreamLimit, maxBodyBytes } = this.#parts
    const tenant = call.get(identity)?.tenant ?? this.#parts.tenant
    // A connection that has closed already has no address.
    if (http?.socket.remoteAddress !== undefined && !publicUrl.isProxy(http.socket.remoteAddress)) {
      this.#admit(http.socket, tenant, exchange)
    }
    const limit = endpoint.isStream?.() === true ? tenantStreamLimit : tenantCallLimit
    counted.add(limit.acquire(tenant))
    const user = { owner: tenant, member: callerKey(call) }
    const room = roomForBody(exchange, user, maxBodyBytes, call.abortState)
    const release = isPending(room) ? await room : room
    if (release !== undefined) counted.add(release)
    const request = await endpoint.read(call)
    // Only the body says that it opens a stream.
    if (call.protocol !== 'mcp' || request.method !== LISTEN_METHOD) return request
    counted.release()
    counted.add(tenantStreamLimit.acquire(tenant))
    return request
  }

  /** Throws `Refusal` (`RATE_LIMITED`), and has the connection closed, if the tenant has too many. */
  #admit(socket: Socket, tenant: string, exchange: ClientExchange): void {
    if (this.#parts.tenantConnections.admit(socket, tenant)) return
    // One of several calls for one request may come after the head of its response.
    if (!exchange.isBegun) exchange.setHeader('connection', 'close')
    throw new Refusal('RATE_LIMITED', 'The tenant has as many connections as it may have.')
  }

  #loggerOf(call: Call): Logger {
    const { logger, limitedLogger } = this.#parts
    return call.get(identity) === undefined ? limitedLogger : logger
  }

  /** The record has every call; the log has the failures that an operator must repair. */
  #logFailure(call: Call, outcome: Outcome): void {
    if (outcome.kind !== 'failed') return
    const fields = { ...errorFields(call, outcome.cause), code: outcome.code }
    if (expectedFailures.has(outcome.code)) this.#parts.logger.debug(fields, 'call ended without a response')
    else this.#loggerOf(call).error(fields, 'call failed')
  }
}
