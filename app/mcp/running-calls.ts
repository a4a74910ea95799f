// Calls whose response the client waits for: the client may cancel them in a request of its own, which another gateway
// may get. A cancelled request needs no response, so its upstream may keep it open for ever.
import { type Call, identity, isRefusal, principalKeyOf, type SharedMap } from '@svc/core'
import { SESSION_ID_HEADER } from '../http/header-names.js'
import { isStatelessExchange, type McpExchange } from './exchange.js'
import type { RpcNotification } from './message.js'
import type { SharedState } from './shared-state.js'

/** Milliseconds between two looks for cancellations that other gateways got. */
const pollMs = 1_000
/** How long such a cancellation is kept, and how many of a tenant. */
const bounds = { ttlMs: 60_000, maxEntries: 10_000 }

interface Running {
  readonly call: Call
  readonly exchange: McpExchange
}

export class RunningCalls {
  #state: SharedState
  /** By tenant: the names of requests that were cancelled at another gateway than the one that runs them. */
  #cancelled: SharedMap
  #graceMs: number
  /** By the name of the request, which a caller without a session may use again. */
  #running = new Map<string, Set<Running>>()
  #timer: NodeJS.Timeout | undefined

  /** A cancelled call may still be answered for `graceMs` milliseconds. */
  constructor(state: SharedState, graceMs: number) {
    this.#state = state
    this.#cancelled = state.map('mcp-cancelled', bounds)
    this.#graceMs = graceMs
  }

  /**
   * Until the call has settled. False where the session runs a request with this id, which may be used only once (MCP
   * 2025-11-25, "Requests"): the server could answer either with the response of the other.
   */
  add(call: Call, exchange: McpExchange): boolean {
    const { message, headers } = exchange
    // Since 2026-07-28 there are no sessions, and a client cancels a request by closing its stream.
    if (message?.type !== 'request' || isStatelessExchange(exchange)) return true
    const name = nameOf(call, exchange, message.id)
    const running = { call, exchange }
    const named = this.#running.get(name) ?? new Set()
    if (named.size > 0 && headers[SESSION_ID_HEADER] !== undefined) return false
    this.#running.set(name, named.add(running))
    call.afterSettle(() => {
      named.delete(running)
      if (named.size === 0) this.#running.delete(name)
    })
    if (this.#state.isShared) this.#poll()
    return true
  }

  /**
   * Stops the call that `message` cancels: that of the session or, without one, the only one of the caller with this id.
   * Never rejects.
   */
  async cancel(call: Call, exchange: McpExchange, { method, params }: RpcNotification): Promise<void> {
    if (method !== 'notifications/cancelled') return
    const name = nameOf(call, exchange, params['requestId'])
    const [running, ...others] = this.#running.get(name) ?? []
    if (running !== undefined) {
      if (others.length === 0) this.#stop(running)
      return
    }
    // Only in its session an id names one request for ever.
    if (exchange.headers[SESSION_ID_HEADER] === undefined || !this.#state.isShared) return
    try {
      await this.#cancelled.set(tenantOf(call), [[name, '']])
    } catch (fault) {
      // Logged already; the server has got the cancellation.
      if (!isRefusal(fault)) throw fault
    }
  }

  #stop({ call, exchange }: Running): void {
    if (exchange.isCancelled === true) return
    exchange.isCancelled = true
    const timer = setTimeout(
      () => call.abort('CANCELLED', 'The caller cancelled the request.'),
      this.#graceMs,
    ).unref()
    call.afterSettle(() => clearTimeout(timer))
  }

  /** As long as calls run. */
  #poll(): void {
    this.#timer ??= setTimeout(async () => {
      await this.#stopCancelled()
      this.#timer = undefined
      if (this.#running.size > 0) this.#poll()
    }, pollMs).unref()
  }

  async #stopCancelled(): Promise<void> {
    const tenants = new Map<string, string[]>()
    for (const [name, [running]] of this.#running) {
      if (running === undefined || running.exchange.headers[SESSION_ID_HEADER] === undefined) continue
      const tenant = tenantOf(running.call)
      tenants.set(tenant, [...(tenants.get(tenant) ?? []), name])
    }
    try {
      for (const [tenant, names] of tenants) {
        const found = await this.#cancelled.get(tenant, names)
        for (const [at, name] of names.entries()) {
          if (found[at] !== undefined)
            for (const running of this.#running.get(name) ?? []) this.#stop(running)
        }
      }
    } catch (fault) {
      // Logged already; the next look is in a second.
      if (!isRefusal(fault)) throw fault
    }
  }
}

function tenantOf(call: Call): string {
  return call.get(identity)?.tenant ?? ''
}

/** Two callers may have one session id, as it is the server's own. */
function nameOf(call: Call, { server, headers }: McpExchange, id: unknown): string {
  const caller = call.get(identity)
  const principal = caller === undefined ? null : principalKeyOf(caller)
  return JSON.stringify([server, principal, headers[SESSION_ID_HEADER], id])
}
