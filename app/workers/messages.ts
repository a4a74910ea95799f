// The messages between the main process of a gateway and its workers.
import type { Serializable } from 'node:child_process'
import type { Diagnostic } from '@svc/core/policy'
import { Calls } from '@svc/core/thread'
import type { GatewayFacts } from '../gateway/gateway-facts.js'
import type { GatewaySettings } from '../gateway/options.js'
import type { ReloadCause, ReloadedPolicy } from '../gateway/reload-records.js'
import type { ListenerName, PolicySource } from '../gateway/worker-link.js'

/** Limit of what a process responds to at once, in milliseconds. */
export const responseMs = 2_000
/** Limit of what the main process responds to after it has asked workers, in milliseconds. */
export const mainMs = 2 * responseMs
/** Limit of the start of a policy, and of each step of a reload, in milliseconds. */
export const policyMs = 60_000

/** The data that a worker needs to start; each value survives JSON. */
export interface WorkerSettings {
  /** From 0 on; one that replaces another has the same. */
  readonly number: number
  /** Number of workers. */
  readonly count: number
  /** The policy in force, which need not be that of the file. */
  readonly policy: PolicySource
  readonly options: Pick<GatewaySettings, 'policyFile' | 'port' | 'sec0Dir'>
  readonly isPreset?: true
  /** The output of the worker. */
  readonly output: { readonly quiet?: true; readonly logLevel?: string }
  /** The address at which the worker with the number 0 serves the targets that are commands to the others. */
  readonly commandsPath: string
}

/** The methods of a worker. */
export interface WorkerMethods {
  /** Resolves when the worker can serve. */
  start(settings: WorkerSettings): Promise<void>
  /** Returns as soon as the event loop of the worker turns. */
  respond(): void
  /** So many workers serve at present, of all that the gateway has. */
  serving(serving: number, all: number): void
  /** The first part of a reload: the policy is started, and waits for `commit` or `discard`. */
  prepare(policy: PolicySource, cause: ReloadCause): Promise<void>
  /** Records the prepared policy; one worker does so, before any commits. */
  record(): Promise<ReloadedPolicy>
  /** Puts the prepared policy in force. Gets the change if it is to announce it. */
  commit(change: ReloadedPolicy | null): Promise<void>
  /** Stops the stages of a policy that is prepared, or of one that is being prepared, once it is. */
  discard(): Promise<void>
  announceRefusal(reason: string, cause: ReloadCause): Promise<void>
  metrics(): Promise<string>
  /** Returns what the worker knows by itself. */
  fact(name: keyof GatewayFacts, args: readonly unknown[]): unknown
  /** The main process listens there, on a port that the policy may leave open. */
  listening(listener: ListenerName, port: number): void
  /** Gives back what it has of a limit and does not use, before it responds. */
  recall(limit: string, key: string): void
  /** Resolves when the calls have ended and the log is closed. */
  close(): Promise<void>
}

/** The mistakes are those of a policy that is not valid; the message is that of another error. */
export type ReloadResult =
  | { readonly change: ReloadedPolicy }
  | { readonly mistakes: readonly Diagnostic[] }
  | { readonly message: string; readonly code: unknown }

/** The methods of the main process. */
export interface MainMethods {
  /** Asks for a part of a limit; returns how many more the worker may have in use. */
  take(limit: string, key: string, max: number): Promise<number>
  /** Gives back parts of a limit that the worker has not used for a while. */
  giveBack(limit: string, key: string, count: number): void
  /** `null` stands for the file of the policy. */
  reload(policy: PolicySource | null, cause: ReloadCause): Promise<ReloadResult>
  metrics(): Promise<string>
  /** Asks all workers for a fact; null for each that does not respond. */
  ask(name: keyof GatewayFacts, args: readonly unknown[]): Promise<unknown[]>
  /** The worker has the connection, and reads from it after this. */
  accepted(connection: number): void
  /** The worker ends by itself, and must get no more connections. */
  draining(): void
}

/** The message with which a worker gets a connection. */
export interface ConnectionMessage {
  readonly kind: 'connection'
  readonly id: number
  readonly listener: ListenerName
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
  return new Calls<Remote>(
    {
      on: (event, listener) =>
        peer.on(event, (message) => {
          if (!isConnection(message)) listener(message)
        }),
      postMessage: (message) => {
        if (peer.connected) peer.send?.(message as Serializable, undefined, undefined, () => undefined)
      },
    },
    methods,
  )
}

export function isConnection(message: unknown): message is ConnectionMessage {
  return (message as { readonly kind?: unknown }).kind === 'connection'
}
