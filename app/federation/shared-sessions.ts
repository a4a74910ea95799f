// The state of clients' sessions with several servers that the gateways of one deployment share, so that any of them serves a
// session: the client's description of itself and its settings, the sessions with servers, and that lists have changed.
import { randomBytes } from 'node:crypto'
import type { Clock } from '@svc/core'
import { type JsonObject, sha256Hex } from '@svc/core/json'
import type { SharedMap } from '@svc/core/store'
import { z } from 'zod'
import { unusedSessionMs } from '../budget/bounded-table.js'
import type { ClientFacts } from '../mcp/handshake.js'
import { type SharedState, unlessDown } from '../mcp/shared-state.js'
import type { ServerLink } from './server-calls.js'

/** Sessions of one caller, servers of one session. */
const maxEntries = 1_000
/** Shortest time between two looks at a session that this gateway has, in milliseconds. */
const lookMs = 1_000
/** Shortest time between two writes of a session that has not changed, in milliseconds. */
const writeMs = 60_000

const members = z.record(z.string(), z.json())

const settingsSchema = z.object({
  client: z.object({ revision: z.string(), capabilities: z.json(), clientInfo: z.json() }),
  logLevel: members.optional(),
  subscribed: z.array(z.tuple([z.string(), z.string()])),
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

/** How the client describes itself, and what it sets in the session. */
export interface SessionSettings {
  readonly client: ClientFacts
  /** The params of the client's last `logging/setLevel`. */
  readonly logLevel?: JsonObject | undefined
  /** By the server and its own URI, the client's URI of a resource. */
  readonly subscribed: readonly (readonly [source: string, listed: string])[]
}

/** The maps of all sessions. */
interface SharedMaps {
  readonly clock: Clock
  /** This gateway. */
  readonly writer: string
  /** By caller. */
  readonly settings: SharedMap
  /** By session. */
  readonly links: SharedMap
  /** By session, the last change of a server's lists. */
  readonly changes: SharedMap
}

export class SharedSessions {
  #state: SharedState
  #maps: SharedMaps

  constructor(state: SharedState, clock: Clock) {
    const bounds = { ttlMs: unusedSessionMs, maxEntries }
    this.#state = state
    this.#maps = {
      clock,
      writer: randomBytes(6).toString('base64url'),
      settings: state.map('mcp-sessions', bounds),
      links: state.map('mcp-links', bounds),
      changes: state.map('mcp-list-changes', bounds),
    }
  }

  /** Undefined without a store. */
  of(owner: string, id: string): SharedSession | undefined {
    return this.#state.isShared ? new SharedSession(sha256Hex(owner), id, this.#maps) : undefined
  }
}

/** While the store is down, each gateway continues with the state that it has. */
export class SharedSession {
  #parts: SharedMaps & { readonly owner: string; readonly id: string }
  #lookedAt = Number.NEGATIVE_INFINITY
  #writtenAt = Number.NEGATIVE_INFINITY
  /** Whether the store has had the session. */
  #isStored = false
  /** By server, the last change that this gateway has seen. */
  #seen = new Map<string, string>()

  constructor(owner: string, id: string, maps: SharedMaps) {
    this.#parts = { ...maps, owner, id }
  }

  /** The settings; undefined if the session is unknown. Rejects with `Refusal` (`STORE_UNAVAILABLE`). */
  async load(): Promise<SessionSettings | undefined> {
    const { owner, id, settings, clock } = this.#parts
    const [text] = await settings.get(owner, [id])
    this.#lookedAt = clock.monotonic()
    if (text === undefined) return undefined
    this.#isStored = true
    return settingsSchema.parse(JSON.parse(text))
  }

  /** The settings if they may have changed; `ended` if another gateway has ended the session. */
  async look(): Promise<SessionSettings | 'ended' | undefined> {
    if (!this.#isStored || this.#parts.clock.monotonic() - this.#lookedAt < lookMs) return undefined
    return unlessDown(this.load().then((settings) => settings ?? 'ended'))
  }

  /** Writes the settings, and that this gateway used the session last. */
  async save(settings: SessionSettings): Promise<void> {
    const { owner, id, writer, clock } = this.#parts
    this.#writtenAt = clock.monotonic()
    const text = JSON.stringify({ ...settings, writer })
    const written = this.#parts.settings.set(owner, [[id, text]]).then(() => true)
    this.#isStored = (await unlessDown(written)) ?? this.#isStored
  }

  /** Keeps the session from expiring while it is used. */
  async touch(settings: SessionSettings): Promise<void> {
    const isDue = this.#parts.clock.monotonic() - this.#writtenAt > writeMs
    if (isDue || !this.#isStored) await this.save(settings)
  }

  /** Whether another gateway has used or ended the session since this one did, or may have. */
  async isElsewhere(): Promise<boolean> {
    const { owner, id, settings, writer } = this.#parts
    const found = await unlessDown(settings.get(owner, [id]))
    const text = found?.[0]
    return text === undefined || settingsSchema.parse(JSON.parse(text)).writer !== writer
  }

  /** The links of the session; empty while the store is down. */
  async links(servers: readonly string[]): Promise<ServerLink[]> {
    const found = await unlessDown(this.#parts.links.get(this.#parts.id, servers))
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
    const { id, links } = this.#parts
    const first = await unlessDown(links.add(id, server, JSON.stringify(opened)))
    if (first === undefined) return opened
    await end(opened)
    return linkOf(first)
  }

  /** Removes a link whose session the server has ended. */
  async drop({ server, sessionId }: ServerLink): Promise<void> {
    const [known] = await this.links([server])
    if (known?.sessionId === sessionId) await unlessDown(this.#parts.links.delete(this.#parts.id, server))
  }

  /** Tells the other gateways that lists of a server have changed. */
  async changed(server: string): Promise<void> {
    const change = randomBytes(6).toString('base64url')
    this.#seen.set(server, change)
    await unlessDown(this.#parts.changes.set(this.#parts.id, [[server, change]]))
  }

  /** Whether another gateway has reported changed lists of a server since the last check. */
  async hasChanged(server: string): Promise<boolean> {
    const [change] = (await unlessDown(this.#parts.changes.get(this.#parts.id, [server]))) ?? []
    if (change === undefined || change === this.#seen.get(server)) return false
    this.#seen.set(server, change)
    return true
  }

  async end(servers: readonly string[]): Promise<void> {
    const { owner, id, settings, links } = this.#parts
    await unlessDown(settings.delete(owner, id))
    for (const server of servers) await unlessDown(links.delete(id, server))
  }
}

function linkOf(text: string): ServerLink {
  const { instructions, ...link } = linkSchema.parse(JSON.parse(text))
  return { ...link, ...(instructions === undefined ? {} : { instructions }) }
}
