// What the gateway keeps of one client of several servers: its links, and the lists that it got.
import type { Clock } from '@svc/core'
import type { JsonObject } from '@svc/core/json'
import type { ClientFacts } from '../mcp/handshake.js'
import { ServerSessions } from '../mcp/server-sessions.js'
import { ListCache } from './list-cache.js'
import { RunningRequests } from './running-request.js'
import type { ServerLink } from './server-link.js'
import { SubscribedUris } from './subscribed-uris.js'
import { TaskServers } from './task-servers.js'

interface UsableServers {
  readonly servers: readonly string[]
  /** The policy and the caller's credentials. */
  readonly scope: string
  /** By the monotonic clock, milliseconds. */
  readonly until: number
}

export class FederationSession {
  readonly id: string
  readonly client: ClientFacts
  readonly links: ServerSessions<ServerLink>
  readonly lists: ListCache
  /** The servers that the caller was found to be allowed. */
  usable: UsableServers | undefined
  readonly running = new RunningRequests()
  readonly subscribed = new SubscribedUris()
  readonly tasks = new TaskServers()
  /** The params by which the client has set the level of log messages. */
  logLevel: JsonObject | undefined
  #ownIds = 0

  constructor(id: string, client: ClientFacts, clock: Clock) {
    this.id = id
    this.client = client
    this.links = new ServerSessions(clock)
    this.lists = new ListCache(clock)
  }

  /** The id of a request of the gateway's own: in one session of a server, no two may have the same. */
  nextOwnId(): string {
    return `svc-${++this.#ownIds}`
  }
}
