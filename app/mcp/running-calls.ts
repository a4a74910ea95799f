// Calls that a client may cancel by a notification, from when their message is read; another gateway may get the
// notification. A call that is not sent yet ends at once. If it was sent, the server gets the cancellation, and the call
// ends after a grace period, because the server need not respond.
import { randomUUID } from 'node:crypto'
import type { Call, Clock, MaybePromise } from '@svc/core'
import { JsonNumber, sha256Hex } from '@svc/core/json'
import { memoryMap, type SharedMap } from '@svc/core/store'
import { SESSION_ID_HEADER } from '../http/header-names.js'
import { callerKey } from '../upstream/send.js'
import { isStatelessExchange, type McpExchange } from './exchange.js'
import type { RpcNotification, RpcRequest } from './message.js'
import type { RequestId } from './protocol.js'
import { type SharedState, tenantOf, unlessDown } from './shared-state.js'

/** Interval at which cancellations at other gateways are looked up, in milliseconds. */
const pollMs = 1_000
/** Limits of the cancellations that the gateways share, for one tenant. */
const sharedBounds = { ttlMs: 60_000, maxEntries: 10_000 }
/** Limits of early cancellations, for one caller. */
const earlyBounds = { ttlMs: 3_600_000, maxEntries: 1_000 }

interface RunningRequest {
  readonly call: Call
  readonly exchange: McpExchange
  /** Monotonic time, in milliseconds. */
  readonly since: number
  /** Set while no call runs, as a person decides whether it is repeated; aborted by a cancellation. */
  readonly held?: AbortController
}

export class RunningCalls {
  #state: SharedState
  #clock: Clock
  /** By tenant, the keys of requests that were cancelled at another gateway than the one that runs them. */
  #cancelled: SharedMap
  /** By caller or its session, when requests were cancelled that had not been read: a cancellation may overtake its request. */
  #early: SharedMap
  /** When the last entry of `#early` expires. */
  #earlyUntil = Number.NEGATIVE_INFINITY
  #graceMs: number
  /** By the call of a cancellation, whether the server gets it too. */
  #cancelling = new WeakMap<Call, Promise<boolean>>()
  /** By the key of a request, which a caller without a session may use again. */
  #running = new Map<string, Set<RunningRequest>>()
  #timer: NodeJS.Timeout | undefined
  #isShared: boolean | undefined

  /** After a cancellation, a server may still respond for `graceMs` milliseconds. */
  constructor(state: SharedState, clock: Clock, graceMs: number) {
    this.#state = state
    this.#clock = clock
    this.#cancelled = state.map('mcp-cancelled', sharedBounds)
    this.#early = memoryMap(earlyBounds, clock)
    this.#graceMs = graceMs
  }

  /**
   * Keeps a request until its call has settled, or carries out a cancellation. A client should use an id once in a session
   * (MCP 2025-11-25, "Requests"), but some use one for all: if a request with it is running, the server gets this one by
   * another id. Throws or rejects with `Refusal` if the call is cancelled already.
   */
  begin(call: Call, exchange: McpExchange): MaybePromise<void> {
    const { message } = exchange
    if (exchange.method === 'DELETE') this.endSession(scopeOf(call, exchange))
    // Stages, which run later, may make a cancellation wait for the same limit as the call that it cancels.
    if (message?.type === 'notification') this.#cancelling.set(call, this.#cancel(call, exchange, message))
    // Servers that read numbers as doubles would respond with another id.
    if (message?.type === 'request' && message.id instanceof JsonNumber) renumber(exchange, message)
    if (message?.type !== 'request' || !isCancelledByMessage(exchange)) return
    const name = nameIn(scopeOf(call, exchange), message.id)
    const running = { call, exchange, since: this.#clock.monotonic() }
    const named = this.#running.get(name) ?? new Set()
    // The gateway itself repeats a call that is held.
    const isRunning = [...named].some(({ held }) => held === undefined || exchange.elicited === undefined)
    if (isRunning && conversationOf(exchange) !== undefined) renumber(exchange, message)
    call.afterSettle(this.#add(name, running))
    return running.since < this.#earlyUntil ? this.#endIfCancelled(running, name) : undefined
  }

  /** Keeps the request of a call that waits for the client or a person, and may be repeated. Aborts when the client cancels it. */
  hold(call: Call, exchange: McpExchange): { readonly cancelled: AbortSignal; release(): void } {
    const held = new AbortController()
    const { message } = exchange
    if (message?.type !== 'request' || !isCancelledByMessage(exchange)) {
      return { cancelled: held.signal, release: () => undefined }
    }
    const running = { call, exchange, since: this.#clock.monotonic(), held }
    const name = nameIn(scopeOf(call, exchange), clientIdOf(exchange, message))
    const release = this.#add(name, running)
    const named = this.#running.get(name) ?? new Set()
    for (const one of named) if (one.call === call && one.held === undefined) named.delete(one)
    return { cancelled: held.signal, release }
  }

  /**
   * The server of the request `id` in a client's session with several servers, which is to get its cancellation. If the request
   * has not been read yet, it is undefined, and the request ends when it is.
   */
  async serverOf(clientSession: string, id: RequestId): Promise<string | undefined> {
    const name = nameIn(clientSession, id)
    const [running] = this.#running.get(name) ?? []
    if (running === undefined) await this.#keepEarly(clientSession, name, '')
    return running?.exchange.server
  }

  /** Ends the requests of a session that are not sent, as its client ends it. */
  endSession(scope: string): void {
    for (const named of this.#running.values()) {
      for (const one of named) {
        const isUnsent = one.held !== undefined || one.call.sent === 'no'
        if (isUnsent && scopeOf(one.call, one.exchange) === scope) this.#stop(one)
      }
    }
  }

  /** The returned function removes it. */
  #add(name: string, running: RunningRequest): () => void {
    const named = this.#running.get(name) ?? new Set()
    this.#running.set(name, named.add(running))
    this.#isShared ??= this.#state.isShared
    if (this.#isShared) this.#poll()
    return () => {
      named.delete(running)
      if (named.size === 0 && this.#running.get(name) === named) this.#running.delete(name)
    }
  }

  /** To be awaited before a call is sent: looks up whether another gateway got a cancellation since the last poll. */
  beforeSend(call: Call, exchange: McpExchange): MaybePromise<void> {
    const { message } = exchange
    if (message?.type !== 'request' || this.#isShared !== true) return
    const name = nameIn(scopeOf(call, exchange), clientIdOf(exchange, message))
    const named = this.#running.get(name) ?? []
    // A call that began just now cannot have been cancelled yet.
    const before = this.#clock.monotonic() - pollMs / 10
    if ([...named].some(({ since }) => since <= before)) return this.#stopCancelled([[name, named]])
  }

  /** False if the notification cancels a call that was not sent to the server. Never rejects. */
  async isForServer(call: Call): Promise<boolean> {
    return (await this.#cancelling.get(call)) ?? true
  }

  /**
   * Stops the call that `message` cancels: the caller's only one with this id, in its session if there is one. Resolves to
   * false if the server need not get the message. Never rejects.
   */
  async #cancel(call: Call, exchange: McpExchange, message: RpcNotification): Promise<boolean> {
    const { method, params } = message
    if (method !== 'notifications/cancelled') return true
    const name = nameIn(scopeOf(call, exchange), params['requestId'])
    const named = [...(this.#running.get(name) ?? [])]
    const held = named.filter((one) => one.held !== undefined)
    for (const one of held) this.#stop(one)
    const [running, ...others] = named.filter((one) => one.held === undefined)
    // The server would end the first of several calls, which need not be the one that is meant.
    if (others.length > 0) return conversationOf(exchange) === undefined
    if (running !== undefined) {
      if (running.exchange.clientId !== undefined) cancelByServerId(exchange, message, running.exchange)
      return this.#stop(running)
    }
    if (held.length > 0) return false
    await this.#keepEarly(earlyGroupOf(call, exchange), name, String(call.receivedAt))
    // An id names only one request within a session alone.
    if (conversationOf(exchange) === undefined || !this.#state.isShared) return true
    // If the store is down, only the server gets the cancellation.
    await unlessDown(this.#cancelled.set(tenantOf(call), [[name, '']]))
    return true
  }

  async #keepEarly(group: string, name: string, at: string): Promise<void> {
    this.#earlyUntil = this.#clock.monotonic() + earlyBounds.ttlMs
    await this.#early.set(group, [[name, at]])
  }

  /** Returns whether the server is to get the cancellation: a call that was not sent needs none, nor does one whose stream ends. */
  #stop({ call, exchange, held }: RunningRequest): boolean {
    held?.abort()
    if (held !== undefined) return false
    const isSent = call.sent !== 'no' && (exchange.connection !== undefined || !isStatelessExchange(exchange))
    if (exchange.isCancelled === true) return isSent
    exchange.isCancelled = true
    const abort = (): void => call.abort('CANCELLED', 'The caller cancelled the request.')
    if (isSent) {
      const timer = setTimeout(abort, this.#graceMs).unref()
      call.afterSettle(() => clearTimeout(timer))
    } else abort()
    return isSent
  }

  async #endIfCancelled(running: RunningRequest, name: string): Promise<void> {
    const { call, exchange } = running
    const group = earlyGroupOf(call, exchange)
    const [cancelledAt] = await this.#early.get(group, [name])
    // Without a session a later request may have the same id.
    const isThis = conversationOf(exchange) !== undefined || call.receivedAt <= Number(cancelledAt)
    if (cancelledAt === undefined || !isThis) return
    await this.#early.delete(group, name)
    this.#stop(running)
    throw call.abortState.reason
  }

  #poll(): void {
    this.#timer ??= setTimeout(async () => {
      await this.#stopCancelled()
      this.#timer = undefined
      if (this.#running.size > 0) this.#poll()
    }, pollMs).unref()
  }

  async #stopCancelled(
    calls: Iterable<readonly [string, Iterable<RunningRequest>]> = this.#running,
  ): Promise<void> {
    const tenants = new Map<string, string[]>()
    for (const [name, [running]] of calls) {
      if (running === undefined || conversationOf(running.exchange) === undefined) continue
      const tenant = tenantOf(running.call)
      tenants.set(tenant, [...(tenants.get(tenant) ?? []), name])
    }
    for (const [tenant, names] of tenants) {
      const found = await unlessDown(this.#cancelled.get(tenant, names))
      // If the store is down, the next poll is in a second.
      if (found === undefined) return
      for (const [at, name] of names.entries()) {
        if (found[at] === undefined) continue
        for (const running of this.#running.get(name) ?? []) this.#stop(running)
      }
    }
  }
}

/** The client's id of a request in its session. */
function clientIdOf({ clientId }: McpExchange, { id }: RpcRequest): RequestId {
  return clientId ?? id
}

/** Gives the request an id that its session has not had; the client gets the response by its own (`clientId`). */
function renumber(exchange: McpExchange, message: RpcRequest): void {
  const { id: clientId } = message
  const id = `svc-${randomUUID()}`
  exchange.message = { ...message, id, whole: { ...message.whole, id } }
  exchange.clientId = clientId
  delete exchange.text
}

/** Names the request in the cancellation as the server knows it. */
function cancelByServerId(exchange: McpExchange, message: RpcNotification, cancelled: McpExchange): void {
  if (cancelled.message?.type !== 'request') return
  const params = { ...message.params, requestId: cancelled.message.id }
  exchange.message = { ...message, params, whole: { ...message.whole, params } }
  delete exchange.text
}

/** The scope in which an id names one request: a session, or a connection within the process. */
function conversationOf({ clientSession, headers, connection }: McpExchange): unknown {
  return clientSession ?? headers[SESSION_ID_HEADER] ?? connection
}

/** From 2026-07-28 on an HTTP client cancels a request by closing its stream. */
function isCancelledByMessage(exchange: McpExchange): boolean {
  return conversationOf(exchange) !== undefined || !isStatelessExchange(exchange)
}

/** A hash, because ids have any length. */
function nameIn(scope: string, id: unknown): string {
  return sha256Hex(JSON.stringify([scope, id]))
}

/** It has the caller because two callers may have the same session at a server. */
function scopeOf(call: Call, exchange: McpExchange): string {
  const { clientSession, server } = exchange
  return clientSession ?? JSON.stringify([server, callerKey(call), conversationOf(exchange)])
}

function earlyGroupOf(call: Call, { clientSession }: McpExchange): string {
  return clientSession ?? callerKey(call)
}
