// Latencies in constant memory.

/** A histogram whose buckets span 2 % each, so that percentiles are within 1 %. */
export class LatencyHistogram {
  readonly #buckets = new Map<number, number>()
  #count = 0
  max = 0

  add(ms: number): void {
    const bucket = ms <= 0 ? Number.NEGATIVE_INFINITY : Math.floor(Math.log(ms) / LatencyHistogram.#step)
    this.#buckets.set(bucket, (this.#buckets.get(bucket) ?? 0) + 1)
    this.#count++
    if (ms > this.max) this.max = ms
  }

  merge(other: LatencyHistogram): void {
    for (const [bucket, count] of other.#buckets)
      this.#buckets.set(bucket, (this.#buckets.get(bucket) ?? 0) + count)
    this.#count += other.#count
    this.max = Math.max(this.max, other.max)
  }

  percentile(share: number): number {
    let rest = Math.ceil(this.#count * share)
    for (const [bucket, count] of [...this.#buckets].sort(([a], [b]) => a - b)) {
      rest -= count
      // The middle of the bucket, on the logarithmic scale.
      if (rest <= 0) return Math.min(this.max, Math.exp((bucket + 0.5) * LatencyHistogram.#step))
    }
    return 0
  }

  static readonly #step = Math.log(1.02)
}
