// The storage port for escalations. A store reads the fields it indexes; the body is opaque to it.
import type { StoreLifecycle } from './store-lifecycle.js'

export interface EscalationEntry {
  readonly id: string
  /** Of the call that waits. */
  readonly fingerprint: string
  /** Whose pending escalations are counted together. */
  readonly principal: string
  readonly isPending: boolean
  /** Milliseconds since the epoch, all three. */
  readonly createdAt: number
  /** When a pending one expires. */
  readonly dueAt: number
  /** When the entry may be deleted. */
  readonly forgetAt: number
  /** Starts at 1 and rises by one with each change. */
  readonly version: number
  readonly body: string
}

export interface OpenConditions {
  /** The newest id under the fingerprint that the opener has read. */
  readonly replaces: string | undefined
  /** How many a principal may have pending. */
  readonly maxPending: number
  /** Milliseconds since the epoch; expired ones are not counted. */
  readonly now: number
}

/** Each operation is atomic over all gateways that share the store, and rejects when it cannot be carried out. */
export interface EscalationStore extends StoreLifecycle {
  /**
   * Keeps a new entry, which is from now on the newest under its fingerprint. `raced`: another was opened meanwhile,
   * or has the id; `full`: its principal has too many pending. Then nothing was kept.
   */
  open(entry: EscalationEntry, conditions: OpenConditions): Promise<'opened' | 'raced' | 'full'>
  get(id: string): Promise<EscalationEntry | undefined>
  /** The newest under the fingerprint. */
  latest(fingerprint: string): Promise<EscalationEntry | undefined>
  /** Stores the entry in place of the version before it; false where another version is stored. */
  replace(entry: EscalationEntry): Promise<boolean>
  /** Deletes this version; false where another is stored. */
  remove(entry: EscalationEntry): Promise<boolean>
  /** Pending ones that have expired, the earliest first. Also deletes some that may be deleted. */
  due(now: number, limit: number): Promise<readonly EscalationEntry[]>
  /** The entries after `after`: newest first, those of one millisecond by descending id. */
  page(after: EscalationEntry | undefined, limit: number): Promise<readonly EscalationEntry[]>
}
