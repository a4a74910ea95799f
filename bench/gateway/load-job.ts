// What the load generator is told to do, and what it tells afterwards.

export interface LoadJob {
  readonly port: number
  readonly connections: number
  /** Whole requests as they go over the wire; a connection takes them in turn, each starting at another. */
  readonly requests: readonly string[]
  /** How long to go on, in milliseconds; or how many calls to make. */
  readonly until: { readonly milliseconds: number } | { readonly calls: number }
}

export interface LoadResult {
  readonly calls: number
  readonly seconds: number
  /** Milliseconds from request to the end of its answer. */
  readonly p50: number
  readonly p99: number
}
