// Calls whose response the client waits for, from when their message is read: the client may cancel them in a request of
// its own, which another gateway may get. A call that is not sent yet ends at once. The server of one that is sent gets the
// cancellation; it owes no response, so it may keep the call open for ever.
import type { Call, Clock, MaybePromise, SharedMap } from '@svc/core'
import { sha256Hex } from '@svc/core/json'
import { MemoryMap } from '@svc/core/store'
import { SESSION_ID_HEADER } from '../http/header-names.js'
import { callerKey } from '../upstream/send.js'
import { isStatelessExchange, type McpExchange } from './exchange.js'
import { invalidRequest } from './mcp-refusal.js'
import type { RpcNotification } from './message.js'
import { type SharedState, tenantOf, unlessDown } from './shared-state.js'

/** Milliseconds between two looks for cancellations that other gateways got. */
const pollMs = 1_000
/** How long such a cancellation is kept, and how many of a tenant. */
const sharedBounds = { ttlMs: 60_000, maxEntries: 10_000 }
/** A message of a batch waits for the first of it. Of a caller. */
const earlyBounds = { ttlMs: 3_600_000, maxEntries: 1_000 }

interface Running {
  readonly call: Call
  readonly exchange: McpExchange
  /** By the monotonic clock. */
  readonly since: number
}

export class RunningCalls {
  #state: SharedState
  #clock: Clock
  /** By tenant: the names of requests that were cancelled at another gateway than the one that runs them. */
  #cancelled: SharedMap
  /** By caller: when requests were cancelled that had not been read, as a cancellation may overtake its request. */
  #early: MemoryMap
  /** When the last entry of `#early` ends. */
  #earlyUntil = Number.NEGATIVE_INFINITY
  #graceMs: number
  /** By the call of a cancellation: whether it is for the server, too. */
  #cancelling = new WeakMap<Call, Promise<boolean>>()
  /** By the name of the request, which a caller without a session may use again. */
  #running = new Map<string, Set<Running>>()
  #timer: NodeJS.Timeout | undefined

  /** A call that was sent may still be answered for `graceMs` milliseconds. */
  constructor(state: SharedState, clock: Clock, graceMs: number) {
    this.#state = state
    this.#clock = clock
    this.#cancelled = state.map('mcp-cancelled', sharedBounds)
    this.#early = new MemoryMap(earlyBounds, clock)
    this.#graceMs = graceMs
  }

  /**
   * Keeps a request until its call has settled, and does what a cancellation says. Throws or rejects with `Refusal` where the call is cancelled already, or the session runs a
   * request with this id, which may be used only once (MCP 2025-11-25, "Requests"): the server could respond either with
   * the response of the other.
   */
  begin(call: Call, exchange: McpExchange): MaybePromise<void> {
    const { message } = exchange
    // Stages may keep a cancellation waiting for what the call that it cancels waits for.
    if (message?.type === 'notification') this.#cancelling.set(call, this.#cancel(call, exchange, message))
    if (message?.type !== 'request' || !isCancelledByMessage(exchange)) return
    const name = nameOf(call, exchange, message.id)
    const running = { call, exchange, since: this.#clock.monotonic() }
    const named = this.#running.get(name) ?? new Set()
    if (named.size > 0 && conversationOf(exchange) !== undefined) {
      throw invalidRequest('A request with this id is running in the session.')
    }
    this.#running.set(name, named.add(running))
    call.afterSettle(() => {
      named.delete(running)
      if (named.size === 0) this.#running.delete(name)
    })
    if (this.#state.isShared) this.#poll()
    return running.since < this.#earlyUntil ? this.#endIfCancelled(running, name) : undefined
  }

  /** To be awaited before a call is sent: whether another gateway got a cancellation that no look has found yet. */
  beforeSend(call: Call, exchange: McpExchange): MaybePromise<void> {
    const { message } = exchange
    if (message?.type !== 'request' || !this.#state.isShared) return
    const name = nameOf(call, exchange, message.id)
    const named = this.#running.get(name) ?? []
    // A client needs longer to cancel what it has just requested.
    const before = this.#clock.monotonic() - pollMs / 10
    if ([...named].some(({ since }) => since <= before)) return this.#stopCancelled([[name, named]])
  }

  /** False where the call of a notification cancels one that the server has not got. Never rejects. */
  async isForServer(call: Call): Promise<boolean> {
    return (await this.#cancelling.get(call)) ?? true
  }

  /**
   * Stops the call that `message` cancels: that of the session or, without one, the only one of the caller with this id.
   * Resolves to false where the server has not got that call, and so has nothing to cancel. Never rejects.
   */
  async #cancel(call: Call, exchange: McpExchange, { method, params }: RpcNotification): Promise<boolean> {
    if (method !== 'notifications/cancelled') return true
    const name = nameOf(call, exchange, params['requestId'])
    const [running, ...others] = this.#running.get(name) ?? []
    if (running !== undefined) return others.length > 0 || this.#stop(running)
    this.#earlyUntil = this.#clock.monotonic() + earlyBounds.ttlMs
    await this.#early.set(callerKey(call), [[name, String(call.receivedAt)]])
    // Only in its session an id names one request for ever.
    if (exchange.headers[SESSION_ID_HEADER] === undefined || !this.#state.isShared) return true
    // While the store is down, only the server gets the cancellation.
    await unlessDown(this.#cancelled.set(tenantOf(call), [[name, '']]))
    return true
  }

  /** Whether the server has got the call. */
  #stop({ call, exchange }: Running): boolean {
    const isSent = call.sent !== 'no'
    if (exchange.isCancelled === true) return isSent
    exchange.isCancelled = true
    const abort = (): void => call.abort('CANCELLED', 'The caller cancelled the request.')
    if (isSent) {
      const timer = setTimeout(abort, this.#graceMs).unref()
      call.afterSettle(() => clearTimeout(timer))
    } else abort()
    return isSent
  }

  async #endIfCancelled(running: Running, name: string): Promise<void> {
    const { call, exchange } = running
    const [cancelledAt] = await this.#early.get(callerKey(call), [name])
    // Without a session a later request may have the same id.
    const isThis = conversationOf(exchange) !== undefined || call.receivedAt <= Number(cancelledAt)
    if (cancelledAt === undefined || !isThis) return
    this.#stop(running)
    throw call.abortState.reason
  }

  /** As long as calls run. */
  #poll(): void {
    this.#timer ??= setTimeout(async () => {
      await this.#stopCancelled()
      this.#timer = undefined
      if (this.#running.size > 0) this.#poll()
    }, pollMs).unref()
  }

  async #stopCancelled(calls: Iterable<readonly [string, Iterable<Running>]> = this.#running): Promise<void> {
    const tenants = new Map<string, string[]>()
    for (const [name, [running]] of calls) {
      if (running === undefined || running.exchange.headers[SESSION_ID_HEADER] === undefined) continue
      const tenant = tenantOf(running.call)
      tenants.set(tenant, [...(tenants.get(tenant) ?? []), name])
    }
    for (const [tenant, names] of tenants) {
      const found = await unlessDown(this.#cancelled.get(tenant, names))
      // While the store is down, the next look is in a second.
      if (found === undefined) return
      for (const [at, name] of names.entries()) {
        if (found[at] === undefined) continue
        for (const running of this.#running.get(name) ?? []) this.#stop(running)
      }
    }
  }
}

/** Within which an id names one request: a session, or a connection of the program's own. */
function conversationOf({ headers, connection }: McpExchange): unknown {
  return headers[SESSION_ID_HEADER] ?? connection
}

/** From 2026-07-28 on a client of HTTP cancels a request by closing its stream. */
function isCancelledByMessage(exchange: McpExchange): boolean {
  return exchange.connection !== undefined || !isStatelessExchange(exchange)
}

/** Two callers may have one session id, as it is the server's own. An id of a request may have any length. */
function nameOf(call: Call, exchange: McpExchange, id: unknown): string {
  return sha256Hex(JSON.stringify([exchange.server, callerKey(call), conversationOf(exchange), id]))
}
