// What the gateway keeps of one client of several servers: its links, and the lists that it got.
import type { Clock } from '@svc/core'
import { isJsonObject, type JsonObject } from '@svc/core/json'
import { BoundedMap } from '@svc/core/store'
import { RESOURCE_UPDATED } from '../mcp/change-notifications.js'
import type { ClientFacts } from '../mcp/handshake.js'
import { MAX_NAME, MAX_URI } from '../mcp/name-limits.js'
import type { Fields } from '../mcp/rpc-response.js'
import { ServerSessions } from '../mcp/server-sessions.js'
import { CancellableRequests } from './cancellable-request.js'
import { ListCache } from './list-cache.js'
import type { EntrySource } from './names.js'
import type { ServerLink } from './server-link.js'

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
  readonly running = new CancellableRequests()
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

/** Of one client; beyond it, the one that was added first is forgotten. */
const maxUris = 1_000
const maxTasks = 1_000
/** The id of a client: a tag, the tool in base64url, the server's id. */
const maxId = 3 * MAX_NAME

/** The server of each task of a client: the id of a task does not name it. */
class TaskServers {
  #servers = new BoundedMap<string, string>(maxTasks)

  add(server: string, taskId: unknown): void {
    if (typeof taskId === 'string' && taskId.length <= maxId) this.#servers.set(taskId, server)
  }

  of(taskId: string): string | undefined {
    return this.#servers.get(taskId)
  }
}

/** Resources that a client subscribes to by another URI than that of their server. */
export class SubscribedUris {
  #listed = new BoundedMap<string, string>(maxUris)

  add(source: EntrySource, listed: string): void {
    if (listed !== source.name && listed.length <= MAX_URI) this.#listed.set(keyOf(source), listed)
  }

  /** The notification with the URI of the client. */
  shown(server: string, message: Fields): Fields {
    const { method, params } = message
    if (method !== RESOURCE_UPDATED || !isJsonObject(params)) return message
    const listed = this.#listed.get(keyOf({ server, name: String(params['uri']) }))
    return listed === undefined ? message : { ...message, params: { ...params, uri: listed } }
  }
}

function keyOf({ server, name }: EntrySource): string {
  return JSON.stringify([server, name])
}
