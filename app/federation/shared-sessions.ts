// Clients' sessions with one or more servers, which any gateway of a deployment serves: the id of a session seals what does not
// change, and the store that the gateways share has what does: the client's settings, its sessions with servers, changed lists.
import { randomBytes } from 'node:crypto'
import type { Clock, MaybePromise } from '@svc/core'
import { type JsonObject, sha256Hex } from '@svc/core/json'
import type { SharedMap } from '@svc/core/store'
import { z } from 'zod'
import type { ClientFacts } from '../mcp/handshake.js'
import {
  isSealedSession,
  type SessionBinding,
  sealedPrefix,
  sessionLifetimeMs,
  type TextSealer,
} from '../mcp/session-binding.js'
import { type SharedState, unlessDown } from '../mcp/shared-state.js'
import type { ServerLink } from './server-calls.js'

/** Sessions of one caller, servers of one session. */
const maxEntries = 1_000
/** Characters of a client's description in an id; servers and proxies limit headers. */
const maxSealed = 2_048

const members = z.record(z.string(), z.json())
const clientSchema = z.object({ revision: z.string(), capabilities: z.json(), clientInfo: z.json() })

const settingsSchema = z.object({
  client: clientSchema.optional(),
  logLevel: members.optional(),
  subscribed: z.array(z.tuple([z.string(), z.string()])),
  isEnded: z.boolean().optional(),
  /** The gateway that wrote it. */
  writer: z.string(),
})

const linkSchema = z.object({
  server: z.string(),
  revision: z.string(),
  isStateless: z.boolean(),
  sessionId: z.string(),
  capabilities: members,
  serverInfo: members,
  instructions: z.string().optional(),
})

/** A client's settings in its session, and how it describes itself. */
export interface SessionSettings {
  readonly client?: ClientFacts | undefined
  /** The params of the client's last `logging/setLevel`. */
  readonly logLevel?: JsonObject | undefined
  /** By the server and its own URI, the client's URI of a resource. */
  readonly subscribed: readonly (readonly [source: string, listed: string])[]
}

/** A session that another gateway has begun, or this one before. */
interface OpenedSession {
  readonly client: ClientFacts
  readonly settings: SessionSettings | undefined
  readonly shared: SharedSession
}

/** The content of a sealed id. */
interface SealedSession {
  /** Names the session in the store. */
  readonly name: string
  /** Milliseconds since the epoch. */
  readonly until: number
  /** Undefined if it is too long; the store has it then. */
  readonly client?: ClientFacts
}

/** The maps of all sessions. */
interface SharedMaps {
  readonly clock: Clock
  /** This gateway. */
  readonly writer: string
  /** Whether other gateways have them too. */
  readonly isShared: boolean
  /** By caller. */
  readonly settings: SharedMap
  /** By session. */
  readonly links: SharedMap
  /** By session, the last change of a server's lists. */
  readonly changes: SharedMap
}

export interface SharedSessionsOptions {
  readonly state: SharedState
  readonly clock: Clock
  readonly sessions: () => MaybePromise<SessionBinding>
}

export class SharedSessions {
  #options: SharedSessionsOptions
  #maps: Omit<SharedMaps, 'isShared'>

  constructor(options: SharedSessionsOptions) {
    const { state, clock } = options
    const bounds = { ttlMs: sessionLifetimeMs, maxEntries }
    this.#options = options
    this.#maps = {
      clock,
      writer: randomBytes(6).toString('base64url'),
      settings: state.map('mcp-sessions', bounds),
      links: state.map('mcp-links', bounds),
      changes: state.map('mcp-list-changes', bounds),
    }
  }

  /** A new session of `owner`, and its id, which nobody else can use. Rejects with `Refusal` (`STORE_UNAVAILABLE`). */
  async begin(
    owner: string,
    client: ClientFacts,
  ): Promise<{ readonly id: string; readonly shared: SharedSession }> {
    const name = randomBytes(12).toString('base64url')
    const isLong = JSON.stringify(client).length > maxSealed
    const until = this.#maps.clock.now() + sessionLifetimeMs
    const sealed: SealedSession = { name, until, ...(isLong ? {} : { client }) }
    const text = (await this.#sealer()).seal(JSON.stringify(sealed), scopeOf(owner))
    const shared = this.#of(owner, name)
    if (isLong) await shared.save({ client, subscribed: [] })
    return { id: `${sealedPrefix}${text}`, shared }
  }

  /**
   * The session of an id; undefined if it is not one of the owner's, has expired or was ended. Rejects with `Refusal`
   * (`STORE_UNAVAILABLE`).
   */
  async open(owner: string, id: string): Promise<OpenedSession | undefined> {
    if (!isSealedSession(id)) return undefined
    const text = (await this.#sealer()).open(id.slice(sealedPrefix.length), scopeOf(owner))
    if (text === undefined) return undefined
    // A gateway has written it, because it could be opened.
    const sealed = JSON.parse(text) as SealedSession
    if (sealed.until <= this.#maps.clock.now()) return undefined
    const shared = this.#of(owner, sealed.name)
    const settings = await shared.load()
    const client = sealed.client ?? settings?.client
    return shared.isEnded || client === undefined ? undefined : { client, settings, shared }
  }

  #of(owner: string, name: string): SharedSession {
    const maps = { ...this.#maps, isShared: this.#options.state.isShared }
    return new SharedSession(sha256Hex(owner), name, maps)
  }

  async #sealer(): Promise<TextSealer> {
    return (await this.#options.sessions()).sealer('mcp session ids')
  }
}

function scopeOf(owner: string): Buffer {
  return Buffer.from(owner)
}

/** While the store is down, each gateway continues with the state that it has. */
export class SharedSession {
  /** Names the session in the gateways. */
  readonly name: string
  readonly isShared: boolean
  /** Whether the client has ended the session, as far as this gateway knows. */
  isEnded = false
  #maps: SharedMaps
  #owner: string
  #lookedAt: number
  /** By server, the last change that this gateway has seen. */
  #seen = new Map<string, string>()

  constructor(owner: string, name: string, maps: SharedMaps) {
    this.name = name
    this.isShared = maps.isShared
    this.#maps = maps
    this.#owner = owner
    this.#lookedAt = maps.clock.monotonic()
  }

  /** The settings; undefined if none were written. Rejects with `Refusal` (`STORE_UNAVAILABLE`). */
  async load(): Promise<SessionSettings | undefined> {
    this.#lookedAt = this.#maps.clock.monotonic()
    const settings = await this.#read()
    if (settings?.isEnded === true) this.isEnded = true
    return settings
  }

  /** Whether `load` was last called more than `withinMs` ago, and may tell something new. */
  isDue(withinMs: number): boolean {
    return this.isShared && this.#maps.clock.monotonic() - this.#lookedAt > withinMs
  }

  /** Writes the settings, and that this gateway used the session last. */
  async save(settings: SessionSettings): Promise<void> {
    const text = JSON.stringify({ ...settings, writer: this.#maps.writer })
    await unlessDown(this.#maps.settings.set(this.#owner, [[this.name, text]]))
  }

  /** Whether another gateway has used or ended the session since this one did, or may have. */
  async isElsewhere(): Promise<boolean> {
    const found = await unlessDown(this.#read().then((settings) => ({ settings })))
    if (found === undefined) return true
    const { settings } = found
    return settings !== undefined && (settings.isEnded === true || settings.writer !== this.#maps.writer)
  }

  async #read(): Promise<z.infer<typeof settingsSchema> | undefined> {
    const [text] = await this.#maps.settings.get(this.#owner, [this.name])
    return text === undefined ? undefined : settingsSchema.parse(JSON.parse(text))
  }

  /** The links of the session; empty while the store is down. */
  async links(servers: readonly string[]): Promise<ServerLink[]> {
    const found = await unlessDown(this.#maps.links.get(this.name, servers))
    return (found ?? []).flatMap((text) => (text === undefined ? [] : [linkOf(text)]))
  }

  /** The session with a server that a gateway began first; `end` gets the link that is not used. */
  async link(
    server: string,
    open: () => Promise<ServerLink>,
    end: (link: ServerLink) => Promise<void>,
  ): Promise<ServerLink> {
    const [known] = await this.links([server])
    if (known !== undefined) return known
    const opened = await open()
    if (opened.sessionId === undefined) return opened
    const first = await unlessDown(this.#maps.links.add(this.name, server, JSON.stringify(opened)))
    if (first === undefined) return opened
    await end(opened)
    return linkOf(first)
  }

  /** Removes a link whose session the server has ended. */
  async drop({ server, sessionId }: ServerLink): Promise<void> {
    // The client may have ended its session at another gateway.
    this.#lookedAt = Number.NEGATIVE_INFINITY
    const [known] = await this.links([server])
    if (known?.sessionId === sessionId) await this.forget([server])
  }

  /** Removes the links with these servers. */
  async forget(servers: readonly string[]): Promise<void> {
    for (const server of servers) await unlessDown(this.#maps.links.delete(this.name, server))
  }

  /** Tells the other gateways that lists of a server have changed. */
  async changed(server: string): Promise<void> {
    if (!this.isShared) return
    const change = randomBytes(6).toString('base64url')
    this.#seen.set(server, change)
    await unlessDown(this.#maps.changes.set(this.name, [[server, change]]))
  }

  /** Whether another gateway has reported changed lists of a server since the last check. */
  async hasChanged(server: string): Promise<boolean> {
    if (!this.isShared) return false
    const [change] = (await unlessDown(this.#maps.changes.get(this.name, [server]))) ?? []
    if (change === undefined || change === this.#seen.get(server)) return false
    this.#seen.set(server, change)
    return true
  }

  /** Ends the session for all gateways, until its id expires. */
  async end(servers: readonly string[]): Promise<void> {
    this.isEnded = true
    const ended = JSON.stringify({ subscribed: [], isEnded: true, writer: this.#maps.writer })
    await unlessDown(this.#maps.settings.set(this.#owner, [[this.name, ended]]))
    await this.forget(servers)
  }
}

function linkOf(text: string): ServerLink {
  const { instructions, ...link } = linkSchema.parse(JSON.parse(text))
  return { ...link, ...(instructions === undefined ? {} : { instructions }) }
}
