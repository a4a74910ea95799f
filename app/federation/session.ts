// The state that the gateway keeps for one client of several servers: its links, lists, requests and subscriptions.
import { randomBytes } from 'node:crypto'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { type Call, type Clock, Refusal } from '@svc/core'
import { isJsonObject, type JsonObject } from '@svc/core/json'
import { BoundedMap } from '@svc/core/store'
import { listChanges, PendingChanges, RESOURCE_UPDATED } from '../mcp/change-notifications.js'
import { declaredModes, type ElicitationModes } from '../mcp/exchange.js'
import { askableCapabilities, type ClientFacts, ServerSessions } from '../mcp/handshake.js'
import { isStateless, MAX_URI } from '../mcp/protocol.js'
import type { Fields } from '../mcp/rpc-response.js'
import { unlessDown } from '../mcp/shared-state.js'
import type { EntrySource } from './names.js'
import { ParkedCalls } from './parked-calls.js'
import type { ServerLink } from './server-calls.js'
import { ListCache } from './server-lists.js'
import type { SessionSettings, SharedSession } from './shared-sessions.js'

interface UsableServers {
  readonly servers: readonly string[]
  /** The policy, and a hash of the caller's credentials. */
  readonly scope: string
  /** Monotonic time, in milliseconds. */
  readonly until: number
  /** A judged call of the caller. */
  readonly rules: Call | undefined
}

/** Time for which what other gateways have changed may be unknown to lists, streams and new links, in milliseconds. */
export const lookMs = 1_000

/** The client has ended the session at this or another gateway. */
export class SessionEnded extends Refusal {
  constructor() {
    super('TARGET_NOT_FOUND', 'There is no such session of this caller; begin a new one.')
  }
}

export class FederationSession {
  /** The id that the client has; of a client without sessions, a hash of its caller and description. */
  readonly key: string
  /** Names the session in this and other gateways. */
  readonly id: string
  readonly client: ClientFacts
  /** Whether the client is of a revision without sessions. */
  readonly isStateless: boolean
  /** The capabilities of the client that servers may use. */
  readonly askable: JsonObject
  readonly isAskable: boolean
  /** Whether the client can be asked for what a server asks in its results; a process has them in sessions too. */
  readonly hasInputRounds: boolean
  readonly modes: ElicitationModes
  readonly links: ServerSessions<ServerLink>
  readonly lists: ListCache
  /** The state that gateways share; undefined for a client without sessions, which has one with each gateway. */
  readonly shared: SharedSession | undefined
  /** The servers of the last request. */
  servers: readonly string[] = []
  /** The servers that the caller may use, if known. */
  usable: UsableServers | undefined
  /** The servers that the last lists are without, and that are announced when they respond. */
  readonly missing = new Set<string>()
  readonly subscribed = new SubscribedUris()
  readonly parked = new ParkedCalls()
  /** The params of the client's last `logging/setLevel`. */
  logLevel: JsonObject | undefined
  #kept = new PendingChanges()
  /** Writes kept changes to the stream that the client opened last. */
  #deliver: ((changes: readonly Fields[]) => void) | undefined
  #ownIds = 0
  /** Differs between gateways that use one session of a server. */
  #instance = randomBytes(4).toString('hex')
  #uses = 0
  #onUnused: (() => void) | undefined

  constructor(key: string, tenant: string, client: ClientFacts, clock: Clock, shared?: SharedSession) {
    this.key = key
    this.id = shared?.name ?? key
    this.client = client
    this.shared = shared
    this.isStateless = isStateless(client.revision)
    this.askable = askableCapabilities(client.capabilities)
    this.isAskable = Object.keys(this.askable).length > 0
    this.hasInputRounds = this.isAskable && !this.isStateless
    this.modes = declaredModes(client.capabilities, client.revision)
    this.links = new ServerSessions(clock)
    this.lists = new ListCache(clock, tenant)
  }

  /** Writes the settings for the other gateways, and that this one used the session last. */
  async save(): Promise<void> {
    const { client, logLevel, subscribed } = this
    await this.shared?.save({ client, logLevel, subscribed: subscribed.all() })
  }

  adopt({ logLevel, subscribed }: SessionSettings): void {
    this.logLevel = logLevel
    this.subscribed.replace(subscribed)
  }

  /**
   * Reads what other gateways have changed, unless it was read `withinMs` ago: then it returns undefined. Throws or rejects with
   * `SessionEnded`.
   */
  refresh(withinMs: number): Promise<void> | undefined {
    const { shared } = this
    if (shared?.isEnded === true) throw new SessionEnded()
    return shared?.isDue(withinMs) === true ? this.#refresh(shared) : undefined
  }

  async #refresh(shared: SharedSession): Promise<void> {
    const settings = await unlessDown(shared.load())
    if (shared.isEnded) throw new SessionEnded()
    if (settings !== undefined) this.adopt(settings)
  }

  /** The links that this or another gateway has opened, without those that are being opened. */
  async openLinks(): Promise<ServerLink[]> {
    // A link that is being opened here is not waited for, even if another gateway has one.
    await Promise.race([this.#adopt(await this.#linksElsewhere()), nextTurn()])
    return this.links.current()
  }

  /** The same, and those that are being opened and do not fail. */
  async allLinks(): Promise<ServerLink[]> {
    await this.#adopt(await this.#linksElsewhere())
    return this.links.open()
  }

  async #linksElsewhere(): Promise<ServerLink[]> {
    return (await this.shared?.links(this.servers)) ?? []
  }

  #adopt(links: readonly ServerLink[]): Promise<unknown> {
    return Promise.all(
      links.map((link) => this.links.of(link.server, { failureMs: 0, open: async () => link })),
    )
  }

  /** The link that another gateway has opened, else that of `open`; `end` gets one that is not used. */
  async openLink(
    server: string,
    open: () => Promise<ServerLink>,
    end: (link: ServerLink) => Promise<void>,
  ): Promise<ServerLink> {
    await this.refresh(lookMs)
    return this.shared?.link(server, open, end) ?? open()
  }

  async dropLink(link: ServerLink): Promise<void> {
    await this.links.drop(link.server, link)
    await this.shared?.drop(link)
  }

  /** Runs a request or a stream of the client. Resolves or rejects as `run` does. */
  async use(run: () => Promise<void>): Promise<void> {
    this.#uses++
    try {
      await run()
    } finally {
      if (--this.#uses === 0) this.#onUnused?.()
    }
  }

  /** Runs `then` when no request and no stream is open. */
  whenUnused(then: () => void): void {
    if (this.#uses === 0) then()
    else this.#onUnused = then
  }

  /** The server responds. If the last lists were without it, the client learns that they have changed. */
  noteResponse(server: string): void {
    if (!this.missing.delete(server)) return
    for (const { method } of listChanges) this.keep({ jsonrpc: '2.0', method })
  }

  /** Keeps a change of a list that came on a stream which the client does not get. */
  keep(message: Fields): void {
    this.#kept.add(message)
    this.#deliver?.(this.#kept.take())
  }

  /** Delivers changes by `deliver`, and those that are kept at once. Returns a function that stops it. */
  deliverBy(deliver: (changes: readonly Fields[]) => void): () => void {
    this.#deliver = deliver
    deliver(this.#kept.take())
    return () => {
      if (this.#deliver === deliver) this.#deliver = undefined
    }
  }

  /** The id of the gateway's next own request, as ids must be unique in a server's session. */
  nextOwnId(): string {
    return `svc-${this.#instance}-${++this.#ownIds}`
  }
}

/** Limit for one client, beyond which the entry that was added first is removed. */
const maxUris = 1_000

/** Resources that a client subscribes to by another URI than the server's. */
export class SubscribedUris {
  #listed = new BoundedMap<string, string>(maxUris)

  /** Returns whether the URIs differ. */
  add(source: EntrySource, listed: string): boolean {
    if (listed === source.name || listed.length > MAX_URI) return false
    this.#listed.set(keyOf(source), listed)
    return true
  }

  all(): [string, string][] {
    return [...this.#listed]
  }

  replace(listed: readonly (readonly [string, string])[]): void {
    this.#listed.clear()
    for (const [source, uri] of listed) this.#listed.set(source, uri)
  }

  /** The notification with the client's URI. */
  shown(server: string, message: Fields): Fields {
    const { method, params } = message
    if (method !== RESOURCE_UPDATED || !isJsonObject(params)) return message
    const { uri: name } = params
    const listed = typeof name === 'string' ? this.#listed.get(keyOf({ server, name })) : undefined
    return listed === undefined ? message : { ...message, params: { ...params, uri: listed } }
  }
}

function keyOf({ server, name }: EntrySource): string {
  return JSON.stringify([server, name])
}
