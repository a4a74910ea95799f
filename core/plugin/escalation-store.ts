// The storage interface for escalations. A store reads the indexed fields; the body is opaque to it.
import type { StoreLifecycle } from './store-lifecycle.js'

export interface EscalationEntry {
  readonly id: string
  /** Of the call. */
  readonly fingerprint: string
  /** The caller; its pending escalations are limited. */
  readonly principal: string
  readonly isPending: boolean
  /** Milliseconds since the epoch, all three. */
  readonly createdAt: number
  /** When a pending escalation times out. */
  readonly dueAt: number
  /** When the entry can be deleted. */
  readonly forgetAt: number
  /** Starts at 1 and increases with each change. */
  readonly version: number
  readonly body: string
}

export interface OpenConditions {
  /** The id of the newest entry with the fingerprint that the caller of `open` knows. */
  readonly replaces: string | undefined
  /** Maximum number of pending entries of a principal. */
  readonly maxPending: number
  /** Milliseconds since the epoch; entries past `dueAt` are not counted. */
  readonly now: number
}

/** Each operation is atomic across all gateways that share the store, and rejects when it fails. */
export interface EscalationStore extends StoreLifecycle {
  /**
   * Stores a new entry as the newest with its fingerprint. `raced`: another was opened meanwhile, or has the id; `full`:
   * its principal has too many pending entries. In both cases nothing was stored.
   */
  open(entry: EscalationEntry, conditions: OpenConditions): Promise<'opened' | 'raced' | 'full'>
  get(id: string): Promise<EscalationEntry | undefined>
  /** The newest with the fingerprint. */
  latest(fingerprint: string): Promise<EscalationEntry | undefined>
  /** Replaces the previous version of the entry; false where another version is stored. */
  replace(entry: EscalationEntry): Promise<boolean>
  /** Deletes this version; false where another is stored. */
  remove(entry: EscalationEntry): Promise<boolean>
  /** Pending entries past `dueAt`, oldest first. Also deletes some entries past `forgetAt`. */
  due(now: number, limit: number): Promise<readonly EscalationEntry[]>
  /** Newest first, within a millisecond by descending id; starts after `after`. */
  page(after: EscalationEntry | undefined, limit: number): Promise<readonly EscalationEntry[]>
}
