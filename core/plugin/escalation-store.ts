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
  /** When a pending one is decided by its time. */
  readonly dueAt: number
  /** When nobody needs it any longer. */
  readonly forgetAt: number
  /** One more with each change, from 1 on. */
  readonly version: number
  readonly body: string
}

export interface OpenConditions {
  /** The id that is the newest under the fingerprint, as far as its opener knows. */
  readonly replaces: string | undefined
  /** How many a principal may have pending. */
  readonly maxPending: number
  /** Milliseconds since the epoch; those whose time is over are not counted. */
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
  /** Puts the entry in the place of the version before it; false where that is not what is kept. */
  replace(entry: EscalationEntry): Promise<boolean>
  /** Forgets this very version; false where another is kept. */
  remove(entry: EscalationEntry): Promise<boolean>
  /** Pending ones whose time is over, the longest first. Also forgets some that nobody needs any longer. */
  due(now: number, limit: number): Promise<readonly EscalationEntry[]>
  /** Newest first, those of the same millisecond by id backwards; from behind `after` on. */
  page(after: EscalationEntry | undefined, limit: number): Promise<readonly EscalationEntry[]>
}
