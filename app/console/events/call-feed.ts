// Follows the log for all clients that watch: read once for all, whichever process writes it, while at least one watches.
import { type CallRow, callRowOf, readRecord } from '../calls/call-row.js'
import { endOf, isBefore, linesAfter, placeOfId, type TailLine, type TailPlace } from '../calls/log-tail.js'

const EVERY_MS = 250
/** Rows of one round, which makes 1,000 a second. */
const MAX_ROWS = 250
/** Less than the time between two looks of a client. */
const SEALED_MS = 900
/** If a log grows faster than it is read, the records between are skipped. */
const MAX_CHUNKS = 16

export interface CallBatch {
  readonly rows: readonly CallRow[]
  /** Number of calls; if not every line was read, by the share of calls among those that were. */
  readonly seen: number
  readonly oneIn: number
  /** The place after the last line. */
  readonly id: string
}

/** The same as `SealedEnd` of the log's tools. */
export type SealedEnds = readonly { readonly day: string; readonly end: number }[]

type Watcher = (batch: CallBatch) => void
type OnError = (error: unknown) => void

export class CallFeed {
  static #feeds = new Map<string, CallFeed>()
  readonly #dir: string
  /** Each watcher, with the function that is called if a round fails. */
  #watchers = new Map<Watcher, OnError>()
  #place: TailPlace | undefined
  #timer: NodeJS.Timeout | undefined
  #round: Promise<void> = Promise.resolve()
  #sealed: { readonly at: number; readonly ends: Promise<SealedEnds> } | undefined

  private constructor(dir: string) {
    this.#dir = dir
  }

  static of(dir: string): CallFeed {
    const feed = CallFeed.#feeds.get(dir) ?? new CallFeed(dir)
    CallFeed.#feeds.set(dir, feed)
    return feed
  }

  /** Calls `watcher` until the returned function is called, first with what was recorded after `id`. */
  async watch(id: string, watcher: Watcher, onError: OnError): Promise<() => void> {
    this.#place ??= await endOf(this.#dir)
    // No round runs from here to the next await, so that no call is in it twice and none is missing.
    const end = this.#place
    const missed = placeOfId(id)
    let waiting: CallBatch[] | undefined = []
    const one: Watcher = (batch) => (waiting === undefined ? watcher(batch) : void waiting.push(batch))
    this.#watchers.set(one, onError)
    this.#start()
    const stop = () => {
      this.#watchers.delete(one)
      if (this.#watchers.size === 0) this.#stop()
    }
    try {
      if (missed !== undefined) await this.#backfill(missed, end, watcher)
    } catch (error) {
      stop()
      throw error
    }
    for (const batch of waiting) watcher(batch)
    waiting = undefined
    return stop
  }

  /** Read at most once a second for all watchers. */
  sealed(): Promise<SealedEnds> {
    const now = performance.now()
    if (this.#sealed === undefined || now - this.#sealed.at >= SEALED_MS)
      this.#sealed = { at: now, ends: this.#readSealed() }
    return this.#sealed.ends
  }

  async #readSealed(): Promise<SealedEnds> {
    const { logBrowser } = await import('@svc/plugin-audit/tools')
    return logBrowser.call('sealedEnds', this.#dir)
  }

  async #backfill(from: TailPlace, end: TailPlace, watcher: Watcher): Promise<void> {
    let place = from
    const lines: TailLine[] = []
    for (let chunk = 0; chunk < MAX_CHUNKS && isBefore(place, end); chunk++) {
      const read = await linesAfter(this.#dir, place)
      lines.push(...read.lines.filter(({ id }) => !isBefore(end, placeOfId(id) ?? end)))
      place = read.next
      if (!read.isMore) break
    }
    watcher(batchOf(lines, end))
  }

  #start(): void {
    this.#timer ??= setInterval(() => {
      this.#round = this.#round
        .then(() => this.#read())
        .catch((error: unknown) => {
          for (const onError of this.#watchers.values()) onError(error)
        })
    }, EVERY_MS).unref()
  }

  #stop(): void {
    clearInterval(this.#timer)
    this.#timer = undefined
    this.#place = undefined
    CallFeed.#feeds.delete(this.#dir)
  }

  async #read(): Promise<void> {
    let place = this.#place
    if (place === undefined) return
    const lines: TailLine[] = []
    for (let chunk = 0; chunk < MAX_CHUNKS; chunk++) {
      const read = await linesAfter(this.#dir, place)
      lines.push(...read.lines)
      place = read.next
      if (!read.isMore) break
    }
    if (this.#place === undefined) return
    this.#place = place
    if (lines.length === 0) return
    const batch = batchOf(lines, place)
    for (const watcher of this.#watchers.keys()) watcher(batch)
  }
}

/** Every n-th line is read if there are too many. */
function batchOf(lines: readonly TailLine[], { day, offset }: TailPlace): CallBatch {
  const oneIn = Math.max(1, Math.ceil(lines.length / MAX_ROWS))
  const rows = lines.flatMap(({ id, text }, index) => {
    const record = index % oneIn === 0 ? readRecord(text) : undefined
    const row = record && callRowOf(record, id)
    return row === undefined || row.kind === 'event' ? [] : [row]
  })
  return { rows, seen: Math.min(rows.length * oneIn, lines.length), oneIn, id: `${day}:${offset}` }
}
