// The job of the load generator, and its result.

export interface LoadJob {
  readonly port: number
  readonly connections: number
  /** Complete requests as bytes; each connection sends one of them, again and again. */
  readonly requests: readonly string[]
  /** Duration in milliseconds, or number of calls. */
  readonly until: { readonly milliseconds: number } | { readonly calls: number }
  /** Requests are due at this rate, whenever responses come; default: each connection sends the next after a response. */
  readonly perSecond?: number
}

export interface LoadResult {
  readonly calls: number
  readonly seconds: number
  /** Milliseconds from the time at which a request was due to the end of its response. */
  readonly p50: number
  readonly p99: number
}
