// Escalations in the memory of this process, for tests and trials: they are lost when it ends.
import type {
  Clock,
  EntryPage,
  EntryPosition,
  EscalationEntry,
  EscalationStore,
  OpenConditions,
} from '@svc/core'

export class MemoryEscalationStore implements EscalationStore {
  readonly inProcess = true
  readonly now?: () => number
  #entries = new Map<string, EscalationEntry>()
  #inputs = new Map<string, string>()
  #inputBytes = 0
  #newest = new Map<string, string>()
  #maxEntries: number
  #maxBytes: number

  /**
   * Entries beyond `maxEntries`, or with inputs beyond `maxBytes`, are refused, as dropping a pending entry would
   * decide it.
   */
  constructor({
    maxEntries = 100_000,
    maxBytes = 268_435_456,
    clock,
  }: {
    readonly maxEntries?: number
    readonly maxBytes?: number
    readonly clock?: Pick<Clock, 'now' | 'monotonic'>
  } = {}) {
    // A clock like that of LMDB, for the life of the process.
    const offset = clock === undefined ? 0 : clock.now() - clock.monotonic()
    if (clock !== undefined) this.now = () => clock.monotonic() + offset
    this.#maxEntries = maxEntries
    this.#maxBytes = maxBytes
  }

  async open(
    entry: EscalationEntry,
    { replaces, maxPending, maxInputBytes, now }: OpenConditions,
    input?: string,
  ) {
    this.#forget(now)
    if (this.#entries.has(entry.id)) return 'raced'
    if (this.#latest(entry.fingerprint)?.id !== replaces) return 'raced'
    const isCounted = ({ principal, isPending, dueAt }: EscalationEntry) =>
      isPending && principal === entry.principal && dueAt > now
    const pending = entry.isPending ? [...this.#entries.values()].filter(isCounted) : []
    if (pending.length >= maxPending) return 'full'
    const used = pending.reduce((sum, { id }) => sum + byteLength(this.#inputs.get(id)), 0)
    if (used > 0 && used + byteLength(input) > maxInputBytes) return 'full'
    if (this.#entries.size >= this.#maxEntries) {
      throw new Error(`the memory escalation store holds ${this.#maxEntries} entries and takes no more`)
    }
    if (input !== undefined) this.#addInput(entry.id, input)
    this.#entries.set(entry.id, entry)
    this.#newest.set(entry.fingerprint, entry.id)
    return 'opened'
  }

  async get(id: string) {
    return this.#entries.get(id)
  }

  async input(id: string) {
    return this.#inputs.get(id)
  }

  async removeInput(id: string) {
    this.#dropInput(id)
  }

  async latest(fingerprint: string) {
    return this.#latest(fingerprint)
  }

  async replace(entry: EscalationEntry) {
    if (this.#entries.get(entry.id)?.version !== entry.version - 1) return false
    this.#entries.set(entry.id, entry)
    return true
  }

  async remove(entry: EscalationEntry) {
    if (this.#entries.get(entry.id)?.version !== entry.version) return false
    this.#drop(entry)
    return true
  }

  async due(now: number, limit: number) {
    this.#forget(now)
    return [...this.#entries.values()]
      .filter(({ isPending, wakeAt }) => isPending && wakeAt <= now)
      .sort((a, b) => a.wakeAt - b.wakeAt)
      .slice(0, limit)
  }

  async page(
    after: EntryPosition | undefined,
    limit: number,
    { isPending = false, first = 'newest' }: EntryPage = {},
  ) {
    const order = (a: EntryPosition, b: EntryPosition) =>
      first === 'newest' ? newestFirst(a, b) : newestFirst(b, a)
    const isWanted = (entry: EscalationEntry) =>
      (entry.isPending || !isPending) && (after === undefined || order(after, entry) < 0)
    return [...this.#entries.values()].filter(isWanted).sort(order).slice(0, limit)
  }

  #addInput(id: string, input: string): void {
    const bytes = this.#inputBytes + byteLength(input)
    if (bytes > this.#maxBytes) {
      throw new Error(`the memory escalation store holds ${this.#maxBytes} bytes of inputs and takes no more`)
    }
    this.#inputBytes = bytes
    this.#inputs.set(id, input)
  }

  #dropInput(id: string): void {
    this.#inputBytes -= byteLength(this.#inputs.get(id))
    this.#inputs.delete(id)
  }

  #latest(fingerprint: string): EscalationEntry | undefined {
    return this.#entries.get(this.#newest.get(fingerprint) ?? '')
  }

  #forget(now: number): void {
    for (const entry of this.#entries.values()) if (entry.forgetAt <= now) this.#drop(entry)
  }

  #drop({ id, fingerprint }: EscalationEntry): void {
    this.#entries.delete(id)
    this.#dropInput(id)
    if (this.#newest.get(fingerprint) === id) this.#newest.delete(fingerprint)
  }
}

function byteLength(input: string | undefined): number {
  return input === undefined ? 0 : Buffer.byteLength(input)
}

function newestFirst(a: EntryPosition, b: EntryPosition): number {
  return b.createdAt - a.createdAt || (a.id > b.id ? -1 : a.id < b.id ? 1 : 0)
}
