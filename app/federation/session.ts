// What the gateway keeps of one client of several servers: its links, and the lists that it got.
import { randomBytes } from 'node:crypto'
import type { Clock } from '@svc/core'
import { canonicalize, type JsonObject, sha256Hex } from '@svc/core/json'
import { Links } from './links.js'
import { ListCache } from './list-cache.js'
import { RunningRequests } from './running-request.js'
import type { ClientFacts } from './server-link.js'
import { SubscribedUris } from './subscribed-uris.js'
import { TaskServers } from './task-servers.js'

/** Of more, the one used longest ago goes; servers end theirs in their own time. */
const maxSessions = 2_000
/** Of one caller, so that it cannot end those of others. */
const maxSessionsPerOwner = 50

interface UsableServers {
  readonly servers: readonly string[]
  /** The policy and the caller's credentials. */
  readonly scope: string
  /** By the monotonic clock, milliseconds. */
  readonly until: number
}

export class FederationSession {
  readonly id: string
  /** The path that the session belongs to, and the caller. */
  readonly owner: string
  readonly client: ClientFacts
  readonly links: Links
  readonly lists: ListCache
  /** The servers that the caller was found to be allowed. */
  usable: UsableServers | undefined
  readonly running = new RunningRequests()
  readonly subscribed = new SubscribedUris()
  readonly tasks = new TaskServers()
  /** The params by which the client has set the level of log messages. */
  logLevel: JsonObject | undefined
  #ownIds = 0

  constructor(id: string, owner: string, client: ClientFacts, clock: Clock) {
    this.id = id
    this.owner = owner
    this.client = client
    this.links = new Links(clock)
    this.lists = new ListCache(clock)
  }

  /** The id of a request of the gateway's own: in one session of a server, no two may have the same. */
  nextOwnId(): string {
    return `svc-${++this.#ownIds}`
  }
}

export class FederationSessions {
  #clock: Clock
  #open = new Map<string, FederationSession>()
  #byOwner = new Map<string, Set<FederationSession>>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  begin(owner: string, client: ClientFacts): FederationSession {
    return this.#use(new FederationSession(randomBytes(24).toString('base64url'), owner, client, this.#clock))
  }

  /** Undefined where the session is unknown or another caller's. */
  find(id: string, owner: string): FederationSession | undefined {
    const session = this.#open.get(id)
    return session?.owner === owner ? this.#use(session) : undefined
  }

  /** For the agent run of a caller whose requests have no session (2026-07-28); `client` is that of the request. */
  ofRun(owner: string, run: string, client: ClientFacts): FederationSession {
    const id = sha256Hex(canonicalize([owner, run, { ...client }]))
    return this.#use(this.#open.get(id) ?? new FederationSession(id, owner, client, this.#clock))
  }

  end(session: FederationSession): void {
    this.#open.delete(session.id)
    const others = this.#byOwner.get(session.owner)
    others?.delete(session)
    if (others?.size === 0) this.#byOwner.delete(session.owner)
  }

  /** Puts the session after all that were used before. */
  #use(session: FederationSession): FederationSession {
    this.end(session)
    this.#open.set(session.id, session)
    const own = this.#byOwner.get(session.owner) ?? new Set()
    this.#byOwner.set(session.owner, own.add(session))
    const [oldestOwn] = own
    if (own.size > maxSessionsPerOwner && oldestOwn !== undefined) this.end(oldestOwn)
    const [oldest] = this.#open.values()
    if (this.#open.size > maxSessions && oldest !== undefined) this.end(oldest)
    return session
  }
}
