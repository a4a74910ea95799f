// The activity of callers in the last 24 hours, counted from the lines of a log. Each read continues where the one before it
// ended, so that a page that is loaded again costs the new lines only.

import { closeSync, openSync, readSync, statSync } from 'node:fs'
import { join } from 'node:path'
import type { RequestKind } from '@svc/core'
import { BoundedMap } from '@svc/core/store'
import { type DailyFile, dailyFiles } from '../../files/daily-files.js'
import { lineStartFrom } from '../../files/lines.js'
import { callerIn } from '../../format/caller-name.js'
import type { SignedEnvelope } from '../../format/envelope.js'
import { objectIn } from '../../format/stored-record.js'
import { LatencyHistogram } from './histograms.js'
import { isGatewayEvent, isOfPeople, recordedKind, refusalReasons } from './outcome.js'
import { recordBlocks } from './records.js'

/** The outcomes of calls. */
export interface CallCounts {
  allowed: number
  denied: number
  /** The failed ones among the allowed calls. */
  failed: number
}

/** Calls of one caller to one server. */
export interface PairCounts extends CallCounts {
  readonly tenant: string
  /** As `callerIn` names it. */
  readonly caller: string
  /** The name without a version. */
  readonly server: string
}

/** Calls of one caller to one tool. */
export interface RouteCounts extends PairCounts {
  readonly tool: string
  readonly kind: RequestKind
  /** The version of the tool in the first of them. */
  readonly version: string
}

export interface ReasonCount {
  readonly reason: string
  /** The effect on the call that the finding had, or would have had. */
  readonly effect: string
  readonly calls: number
}

export interface ActivityBucket extends CallCounts {
  /** Milliseconds since the epoch at which it begins. */
  readonly from: number
  /** Milliseconds, within 1 %; 0 without a call. */
  readonly p50: number
  readonly p99: number
}

export interface ActivityCounts extends CallCounts {
  readonly bucketMs: number
  /** Without gaps, the oldest first. */
  readonly buckets: readonly ActivityBucket[]
  /** Milliseconds, within 1 %, of the calls about which nobody was asked: the time of the gateway and of the servers. */
  readonly latency: {
    readonly p50: number
    readonly p90: number
    readonly p99: number
    readonly max: number
  }
  /** Milliseconds from the opening of an escalation to the decision of people, or to the time-out. */
  readonly waits: { readonly count: number; readonly p50: number; readonly max: number }
  /** In descending order of calls. */
  readonly reasons: readonly ReasonCount[]
  readonly routes: readonly RouteCounts[]
  /** The sums of the routes between a caller and a server. */
  readonly pairs: readonly PairCounts[]
  /** Whether there were more routes, pairs or reasons in a bucket than are kept apart: the rest is in totals only. */
  readonly isCut: boolean
  /** Milliseconds since the epoch: older lines were not read. Undefined if all of the time was. */
  readonly readFrom: number | undefined
}

const DAY_MS = 86_400_000
const ACTIVITY_BUCKET_MS = 600_000
/** Bytes of the log that a first read goes back at most. */
const MAX_BYTES = 256 * 1024 * 1024
/** Routes, pairs and reasons that a bucket counts apart, each. */
const MAX_APART = 2_000
/** Escalations that wait at one time. */
const MAX_OPEN = 10_000
const SEARCHED_BYTES = 65_536

export interface ActivityFilter {
  /** Undefined for all. */
  readonly tenant?: string | undefined
  /** Milliseconds since the epoch. */
  readonly since: number
  readonly until: number
}

export class Activity {
  readonly #dir: string
  readonly #maxBytes: number
  /** By number since the epoch. */
  readonly #buckets = new Map<number, Map<string, Tally>>()
  /** The offset after the last whole line, by file. */
  readonly #read = new Map<string, number>()
  /** The escalations that wait, by their ids. */
  readonly #open = new BoundedMap<string, { readonly time: number; isVotedOn: boolean }>(MAX_OPEN)
  #readFrom: number | undefined
  #reading: Promise<void> | undefined

  constructor(dir: string, maxBytes = MAX_BYTES) {
    this.#dir = dir
    this.#maxBytes = maxBytes
  }

  /**
   * Reads what was appended since the last read; calls at the same time share one.
   *
   * @throws {AuditError} `read_failed`
   */
  async refresh(now: number): Promise<void> {
    this.#reading ??= this.#append(now).finally(() => {
      this.#reading = undefined
    })
    await this.#reading
  }

  counts({ tenant, since, until }: ActivityFilter): ActivityCounts {
    const total = new Tally()
    const first = Math.floor(since / ACTIVITY_BUCKET_MS)
    const last = Math.max(first, Math.floor(until / ACTIVITY_BUCKET_MS))
    const buckets = Array.from({ length: last - first + 1 }, (_, index): ActivityBucket => {
      const tally = new Tally()
      for (const [name, one] of this.#buckets.get(first + index) ?? []) {
        if (tenant === undefined || name === tenant) tally.merge(one)
      }
      total.merge(tally)
      const { counts, latency } = tally
      const [p50, p99] = [latency.percentile(0.5), latency.percentile(0.99)]
      return { from: (first + index) * ACTIVITY_BUCKET_MS, ...counts, p50, p99 }
    })
    const { counts, latency, waits, reasons, routes, pairs, isCut } = total
    return {
      ...counts,
      bucketMs: ACTIVITY_BUCKET_MS,
      buckets,
      latency: {
        p50: latency.percentile(0.5),
        p90: latency.percentile(0.9),
        p99: latency.percentile(0.99),
        max: latency.max,
      },
      waits: { count: waits.count, p50: waits.percentile(0.5), max: waits.max },
      reasons: [...reasons.values()].sort((a, b) => b.calls - a.calls),
      routes: [...routes.values()].sort((a, b) => callsOf(b) - callsOf(a)),
      pairs: [...pairs.values()].sort((a, b) => callsOf(b) - callsOf(a)),
      isCut,
      readFrom: this.#readFrom !== undefined && this.#readFrom > since ? this.#readFrom : undefined,
    }
  }

  async #append(now: number): Promise<void> {
    const since = now - DAY_MS
    this.#forget(since)
    const firstDay = new Date(since).toISOString().slice(0, 10)
    const files = (await dailyFiles(this.#dir)).filter(({ day }) => day >= firstDay)
    const names = new Set(files.map(({ name }) => name))
    for (const name of this.#read.keys()) if (!names.has(name)) this.#read.delete(name)
    let left = this.#maxBytes
    const starts = new Map<string, number>()
    for (const { name } of [...files].reverse()) {
      const path = join(this.#dir, name)
      const { size } = statSync(path)
      const begin = this.#read.get(name) ?? firstLineAt(path, size, since)
      const start = size - begin <= left ? begin : lineStartFrom(path, size - left, size)
      if (start > begin) this.#readFrom = timeAt(path, start, size) ?? now
      left -= size - start
      starts.set(name, start)
      if (left <= 0) break
    }
    for (const file of files) {
      const start = starts.get(file.name)
      if (start !== undefined) await this.#readFile(file, start, since)
    }
  }

  /** Resolves after the last whole line. Blocks are read one by one, so that calls proceed between them. */
  async #readFile(file: DailyFile, from: number, since: number): Promise<void> {
    for await (const records of recordBlocks(this.#dir, file, { from })) {
      for (const { record, complete, end } of records) {
        if (!complete) return
        if (record !== undefined) this.#add(record, since)
        this.#read.set(file.name, end)
      }
    }
  }

  #add(record: SignedEnvelope, since: number): void {
    const time = Date.parse(record.ts)
    if (!(time >= since)) return
    const number = Math.floor(time / ACTIVITY_BUCKET_MS)
    const tenants = getOrSet(this.#buckets, number, () => new Map<string, Tally>())
    const tally = getOrSet(tenants, record.tenant, () => new Tally())
    if (!isGatewayEvent(record)) tally.add(record)
    else {
      const waitMs = this.#waitEndedBy(record, time)
      if (waitMs !== undefined) tally.waits.add(waitMs)
    }
  }

  /** The time that people took; undefined if the event decides nothing, or no person did. */
  #waitEndedBy({ tool, escalation_id: id }: SignedEnvelope, time: number): number | undefined {
    if (id === undefined) return undefined
    const [step] = partsOf(tool)
    if (step === 'escalations/open') this.#open.set(id, { time, isVotedOn: false })
    const opened = this.#open.get(id)
    if (opened === undefined) return undefined
    if (step === 'escalations/vote') opened.isVotedOn = true
    const isDecided = step === 'escalations/expire' || (step === 'escalations/decide' && opened.isVotedOn)
    if (!isDecided) return undefined
    this.#open.delete(id)
    return time - opened.time
  }

  #forget(since: number): void {
    const oldest = Math.floor(since / ACTIVITY_BUCKET_MS)
    for (const number of this.#buckets.keys()) if (number < oldest) this.#buckets.delete(number)
  }
}

class Tally {
  readonly counts: CallCounts = { allowed: 0, denied: 0, failed: 0 }
  readonly latency = new LatencyHistogram()
  readonly waits = new LatencyHistogram()
  readonly reasons = new Map<string, { reason: string; effect: string; calls: number }>()
  readonly routes = new Map<string, RouteCounts>()
  readonly pairs = new Map<string, PairCounts>()
  isCut = false

  add(record: SignedEnvelope): void {
    const isDenied = record.policy.decision === 'deny'
    const own = { allowed: isDenied ? 0 : 1, denied: isDenied ? 1 : 0, failed: 0 }
    if (!isDenied && record.status === 'error') own.failed = 1
    addTo(this.counts, own)
    if (!isOfPeople(record)) this.latency.add(record.latency_ms)
    const { tenant } = record
    const caller = callerIn(record)
    const [[server], [tool, version]] = [partsOf(record.server), partsOf(record.tool)]
    const kind = recordedKind(record)
    const pair = { tenant, caller, server, ...own }
    this.#apart(this.pairs, JSON.stringify([tenant, caller, server]), pair)
    this.#apart(this.routes, JSON.stringify([tenant, caller, server, tool, kind]), {
      ...pair,
      ...{ tool, kind, version },
    })
    const found = new Map(
      (record.findings ?? []).map(({ reason, effect }) => [`${reason} ${effect}`, { reason, effect }]),
    )
    if (isDenied && found.size === 0) {
      for (const reason of refusalReasons(record)) found.set(`${reason} deny`, { reason, effect: 'deny' })
    }
    for (const [name, one] of found) this.#reason(name, { ...one, calls: 1 })
  }

  merge({ counts, latency, waits, reasons, routes, pairs, isCut }: Tally): void {
    addTo(this.counts, counts)
    this.latency.merge(latency)
    this.waits.merge(waits)
    for (const [key, one] of routes) this.#apart(this.routes, key, one)
    for (const [key, one] of pairs) this.#apart(this.pairs, key, one)
    for (const [name, one] of reasons) this.#reason(name, one)
    this.isCut ||= isCut
  }

  #apart<Kept extends CallCounts>(kept: Map<string, Kept>, key: string, added: Kept): void {
    const one = kept.get(key) ?? this.#room(kept, key, () => ({ ...added, allowed: 0, denied: 0, failed: 0 }))
    if (one !== undefined) addTo(one, added)
  }

  #reason(name: string, { reason, effect, calls }: ReasonCount): void {
    const one = this.reasons.get(name) ?? this.#room(this.reasons, name, () => ({ reason, effect, calls: 0 }))
    if (one !== undefined) one.calls += calls
  }

  #room<Kept>(kept: Map<string, Kept>, key: string, create: () => Kept): Kept | undefined {
    if (kept.size >= MAX_APART) {
      this.isCut = true
      return undefined
    }
    const created = create()
    kept.set(key, created)
    return created
  }
}

function addTo(sum: CallCounts, { allowed, denied, failed }: CallCounts): void {
  sum.allowed += allowed
  sum.denied += denied
  sum.failed += failed
}

function callsOf({ allowed, denied }: CallCounts): number {
  return allowed + denied
}

/** Splits `<name>@<version>`. */
function partsOf(versioned: string): [name: string, version: string] {
  const at = versioned.lastIndexOf('@')
  return at <= 0 ? [versioned, ''] : [versioned.slice(0, at), versioned.slice(at + 1)]
}

function getOrSet<Key, Value>(map: Map<Key, Value>, key: Key, create: () => Value): Value {
  const found = map.get(key)
  if (found !== undefined) return found
  const created = create()
  map.set(key, created)
  return created
}

/** An offset before which all lines are older than `time`: a binary search, as lines are in the order of time. */
function firstLineAt(path: string, size: number, time: number): number {
  let [low, high] = [0, size]
  while (high - low > SEARCHED_BYTES) {
    const middle = lineStartFrom(path, Math.floor((low + high) / 2), high)
    const at = middle >= high ? undefined : timeAt(path, middle, high)
    if (at === undefined || at >= time) high = Math.floor((low + high) / 2)
    else low = middle
  }
  return low
}

/** Milliseconds since the epoch of the record in the line that begins at `start`; undefined if it is not a record. */
function timeAt(path: string, start: number, size: number): number | undefined {
  const end = lineStartFrom(path, start + 1, size)
  const bytes = Buffer.alloc(end - start)
  const fd = openSync(path, 'r')
  try {
    readSync(fd, bytes, 0, bytes.length, start)
  } finally {
    closeSync(fd)
  }
  const time = Date.parse(String(objectIn(bytes)?.['ts']))
  return Number.isNaN(time) ? undefined : time
}
