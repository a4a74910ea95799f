// Latencies, and calls over time, in constant memory.

/** A histogram whose buckets span 2 % each, so that percentiles are within 1 %. */
export class LatencyHistogram {
  readonly #buckets = new Map<number, number>()
  count = 0
  max = 0

  add(ms: number): void {
    const bucket = ms <= 0 ? Number.NEGATIVE_INFINITY : Math.floor(Math.log(ms) / LatencyHistogram.#step)
    this.#buckets.set(bucket, (this.#buckets.get(bucket) ?? 0) + 1)
    this.count++
    if (ms > this.max) this.max = ms
  }

  merge(other: LatencyHistogram): void {
    for (const [bucket, count] of other.#buckets)
      this.#buckets.set(bucket, (this.#buckets.get(bucket) ?? 0) + count)
    this.count += other.count
    this.max = Math.max(this.max, other.max)
  }

  percentile(share: number): number {
    let rest = Math.ceil(this.count * share)
    for (const [bucket, count] of [...this.#buckets].sort(([a], [b]) => a - b)) {
      rest -= count
      // The middle of the bucket, on the logarithmic scale.
      if (rest <= 0) return Math.min(this.max, Math.exp((bucket + 0.5) * LatencyHistogram.#step))
    }
    return 0
  }

  static readonly #step = Math.log(1.02)
}

export interface TimelineBucket {
  /** ISO 8601 instant at which the bucket begins. */
  readonly from: string
  readonly allowed: number
  readonly denied: number
}

const MAX_BUCKETS = 60
const MIN_BUCKET_MS = 1_000

export class Timeline {
  #bucketMs = MIN_BUCKET_MS
  /** Buckets by their number since the epoch. */
  #buckets = new Map<number, { allowed: number; denied: number }>()
  #first = Number.POSITIVE_INFINITY
  #last = Number.NEGATIVE_INFINITY

  /** `ms`: milliseconds since the epoch. */
  add(ms: number, isDenied: boolean): void {
    const number = Math.floor(ms / this.#bucketMs)
    this.#first = Math.min(this.#first, number)
    this.#last = Math.max(this.#last, number)
    this.#count(number, isDenied ? 0 : 1, isDenied ? 1 : 0)
    while (this.#last - this.#first >= MAX_BUCKETS) this.#double()
  }

  #count(number: number, allowed: number, denied: number): void {
    const bucket = this.#buckets.get(number)
    if (bucket === undefined) this.#buckets.set(number, { allowed, denied })
    else {
      bucket.allowed += allowed
      bucket.denied += denied
    }
  }

  #double(): void {
    const buckets = this.#buckets
    this.#buckets = new Map()
    this.#bucketMs *= 2
    this.#first = Math.floor(this.#first / 2)
    this.#last = Math.floor(this.#last / 2)
    for (const [number, { allowed, denied }] of buckets) this.#count(Math.floor(number / 2), allowed, denied)
  }

  /** The buckets without gaps, at most 60. */
  buckets(): TimelineBucket[] {
    if (this.#buckets.size === 0) return []
    return Array.from({ length: this.#last - this.#first + 1 }, (_, index) => {
      const number = this.#first + index
      const { allowed = 0, denied = 0 } = this.#buckets.get(number) ?? {}
      return { from: new Date(number * this.#bucketMs).toISOString(), allowed, denied }
    })
  }
}
