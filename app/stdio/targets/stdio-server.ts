// One server over stdio as its clients share it: its process, its subscribers, and the number of its running requests.
import { type Abortable, abortable } from '@svc/core'
import { Budget, type BudgetUser } from '../../budget/budget.js'
import { responseWithoutClient } from '../../mcp/rpc-error.js'
import type { ReceivedMessage } from '../../mcp/servers.js'
import { Notifications } from './notifications.js'
import type { Connection, RpcChannel } from './rpc-channel.js'
import { Supervisor, type SupervisorOptions } from './supervisor.js'

/** Receives what the process sends to its only client; false if that does not get it. */
export type OnlyClient = (received: ReceivedMessage) => boolean

export interface StdioServerOptions
  extends Omit<SupervisorOptions, 'onMessage' | 'onStart' | 'clientAnnounces'> {
  /** Receives messages if one client has the process for itself; undefined if several share it. */
  readonly onlyClient?: OnlyClient
}

export class StdioServer {
  readonly notifications: Notifications
  readonly supervisor: Supervisor
  /** Whether only one client uses it. */
  readonly isExclusive: boolean
  /** Number of sessions that use it. */
  sessions = 0
  /** The requests that the process works on, at a time. */
  readonly #requests: Budget

  constructor(options: StdioServerOptions) {
    const { onlyClient, client } = options
    this.isExclusive = onlyClient !== undefined
    const { isolate, max_concurrent: max } = options.target
    // A part for other tenants, and one for other callers of the tenant.
    const reserved = isolate === 'gateway' ? Math.floor(max / 4) : 0
    this.#requests = new Budget({
      limit: max,
      limitOfOwner: max - reserved,
      limitOfMember: max - 2 * reserved,
    })
    this.notifications = new Notifications(client.clientInfo)
    this.supervisor = new Supervisor({
      ...options,
      clientAnnounces: this.isExclusive,
      onMessage: (received, channel) => this.#receive(received, channel, onlyClient),
      onStart: (connection) => this.notifications.attach(connection),
      onExit: () => {
        this.notifications.detach()
        options.onExit()
      },
    })
  }

  /** Rejects with `UpstreamError`, or with the reason of the signal. */
  connection(signal: Abortable): Promise<Connection> {
    return abortable(signal, this.supervisor.connection())
  }

  /** Waits until the process may work on one more request; the caller calls the result when it is done. */
  async admit(caller: BudgetUser, signal: Abortable): Promise<() => void> {
    const release = await this.#requests.take(caller, 1, signal)
    return () => {
      this.supervisor.touch()
      release()
    }
  }

  /** Whether neither a request nor a stream needs the process. */
  get isIdle(): boolean {
    return this.#requests.used === 0 && !this.notifications.hasStreams && !this.supervisor.isStarting
  }

  #receive(received: ReceivedMessage, channel: RpcChannel, onlyClient: OnlyClient | undefined): void {
    const { message } = received
    if (this.notifications.publish(message)) return
    const { id, method } = message
    // Without `onlyClient` it is not known which of the clients the request is for, so no client gets it.
    const isPing = id !== undefined && method === 'ping'
    if (!isPing && onlyClient?.(received) === true) return
    if (id !== undefined) channel.send(responseWithoutClient(id, method))
  }
}
