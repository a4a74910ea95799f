// The storage interface for escalations. A store reads the indexed fields; the body is opaque to it.
import type { StoreLifecycle } from './store-lifecycle.js'

export interface EscalationEntry {
  readonly id: string
  /** The fingerprint of the call. */
  readonly fingerprint: string
  /** The caller, as a person or a service agent; the pending entries of each are limited. */
  readonly principal: string
  /** Whether people have to vote on it: a decision is pending, or the review of an emergency call. */
  readonly isPending: boolean
  /** This and the next three are in milliseconds since the epoch. */
  readonly createdAt: number
  /** When a pending entry has its next step, its expiry at the latest. */
  readonly wakeAt: number
  /** When a pending entry expires. */
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
  /** Maximum number of pending entries of a principal. */
  readonly maxPending: number
  /** Maximum bytes of the inputs of a principal's pending entries together; a single one may be larger. */
  readonly maxInputBytes: number
  /** Milliseconds since the epoch; expired entries are not counted. */
  readonly now: number
}

/** The place of an entry in pages; there need not be an entry. */
export type EntryPosition = Pick<EscalationEntry, 'id' | 'createdAt'>

/** Which entries a page has, and in which order. Those of one millisecond are in the order of their ids. */
export interface EntryPage {
  /** Only pending entries. Others must not make such a page slower: it is read each second. */
  readonly isPending?: boolean
  /** Default: the newest. */
  readonly first?: 'newest' | 'oldest' | undefined
}

/** Each operation is atomic across all gateways that share the store, and rejects when it fails. */
export interface EscalationStore extends StoreLifecycle {
  /**
   * Stores a new entry as the newest with its fingerprint, with its input. `raced`: another entry was opened meanwhile,
   * or has the id; `full`: its principal has too many pending entries. In both cases nothing was stored.
   */
  open(
    entry: EscalationEntry,
    conditions: OpenConditions,
    input?: string,
  ): Promise<'opened' | 'raced' | 'full'>
  get(id: string): Promise<EscalationEntry | undefined>
  /** The input of the entry, which no other operation returns. */
  input(id: string): Promise<string | undefined>
  /** Deletes the input, and leaves the entry. */
  removeInput(id: string): Promise<void>
  /** The newest entry with the fingerprint. */
  latest(fingerprint: string): Promise<EscalationEntry | undefined>
  /** Stores the entry in place of the version before it; false if another version is stored. */
  replace(entry: EscalationEntry): Promise<boolean>
  /** Deletes this version; false if another is stored. */
  remove(entry: EscalationEntry): Promise<boolean>
  /** Pending entries whose next step is due, the earliest first. Also deletes some entries that may be deleted. */
  due(now: number, limit: number): Promise<readonly EscalationEntry[]>
  /** The entries after `after`, which may be deleted or decided by now. */
  page(
    after: EntryPosition | undefined,
    limit: number,
    which?: EntryPage,
  ): Promise<readonly EscalationEntry[]>
}
