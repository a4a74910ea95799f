// The messages between the supervisor and its workers: what a worker starts with, and what each asks the other.
import type { Serializable } from 'node:child_process'
import { Calls } from '@svc/core/thread'
import type { GatewaySettings } from '../gateway/options.js'

/** Limit of a response to the supervisor, in milliseconds. */
export const responseMs = 2_000
/** Limit of the start of a worker, in milliseconds. */
export const startMs = 60_000

/** What a worker starts with; each value survives JSON. */
export interface WorkerSettings {
  /** From 0 on; the replacement of a worker has the same. */
  readonly number: number
  /** Number of workers. */
  readonly count: number
  readonly options: Pick<GatewaySettings, 'policyFile' | 'policyYaml' | 'sec0Dir'>
  /** The ports, which the policy may leave open. No `admin`: no worker has an admin listener. */
  readonly ports: { readonly calls: number; readonly admin?: number }
  readonly isPreset: boolean
  /** Whether the policy file is loaded anew when it changes. */
  readonly isWatching: boolean
  readonly output: { readonly quiet?: true; readonly logLevel?: string }
}

export interface WorkerMethods {
  /** Resolves when the worker listens. */
  start(settings: WorkerSettings): Promise<void>
  /** Returns as soon as the event loop of the worker turns. */
  respond(): void
  /** Returns the metrics of the worker alone. */
  metrics(): Promise<string>
}

export interface SupervisorMethods {
  /** Returns the metrics of all workers. */
  metrics(): Promise<string>
  /** The worker has loaded the file of the policy by an operator's request. */
  reloadOthers(): void
}

/** One end of the channel between two processes. */
interface Peer {
  readonly connected: boolean
  on(event: 'message', listener: (message: unknown) => void): unknown
  send?(
    message: Serializable,
    handle: undefined,
    options: undefined,
    callback: (error: Error | null) => void,
  ): boolean
}

/** Calls to the other process. A message to one that has ended is dropped: its end rejects the calls. */
export function callsTo<Remote extends Record<keyof Remote, (...args: never[]) => unknown>>(
  peer: Peer,
  methods: Readonly<Record<string, (...args: never[]) => unknown>>,
): Calls<Remote> {
  const postMessage = (message: unknown): void => {
    if (peer.connected) peer.send?.(message as Serializable, undefined, undefined, () => undefined)
  }
  return new Calls<Remote>({ on: (event, listener) => peer.on(event, listener), postMessage }, methods)
}
