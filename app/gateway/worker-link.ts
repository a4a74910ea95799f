// The interface by which a worker, one of the processes of a gateway, uses the others. app/workers implements it.
import type { CreateUseLimit } from '../budget/use-limit.js'
import type { AskProcesses } from '../console/process-facts.js'
import type { ConnectionSource } from '../http/server.js'
import type { GatewayFacts } from './gateway-facts.js'
import type { ReloadCause, ReloadedPolicy } from './reload-records.js'

export type PolicySource = string | Record<string, unknown>

/** The listeners of a gateway. */
export type ListenerName = 'calls' | 'admin'

export interface WorkerLink {
  readonly createLimit: CreateUseLimit
  /** The connections that this worker gets. */
  connections(listener: ListenerName): ConnectionSource
  /** The worker that has the processes of targets which are commands, and where the others reach it. */
  readonly commands: { readonly isOwner: boolean; readonly path: string }
  /** Puts a policy, or that of the file, in force in all workers, or in none. Rejects with the reason. */
  reload(policy: PolicySource | undefined, cause: ReloadCause): Promise<ReloadedPolicy>
  /** The metrics of all workers in the text format. */
  metrics(): Promise<string>
  /** Workers that do not serve. */
  warnings(): string[]
  /** Asks all workers. */
  ask: AskProcesses<GatewayFacts>
}
