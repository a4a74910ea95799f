// The counts in memory as a `QuotaAdapter`, for tests and for programs that bind or wrap it.
import type { QuotaAdapter } from '@svc/core'
import { MemoryCounts, type MemoryCountsOptions } from './counts.js'

export class MemoryQuotaAdapter implements QuotaAdapter {
  readonly inProcess = true
  #counts: MemoryCounts

  constructor(options: MemoryCountsOptions = {}) {
    this.#counts = new MemoryCounts(options)
  }

  /** How many buckets and counts are kept. */
  get size(): number {
    return this.#counts.size
  }

  async incrDaily(...args: Parameters<MemoryCounts['incrDaily']>) {
    return this.#counts.incrDaily(...args)
  }

  async takeToken(...args: Parameters<MemoryCounts['takeToken']>) {
    return this.#counts.takeToken(...args)
  }

  async refundDaily(...args: Parameters<MemoryCounts['refundDaily']>): Promise<void> {
    this.#counts.refundDaily(...args)
  }
}
