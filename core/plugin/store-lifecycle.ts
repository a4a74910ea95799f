// The life cycle that all storage interfaces share. `StoreResource` in `@svc/core/store` calls these methods.
export interface StoreLifecycle {
  /** True for a store in the memory of this process: it cannot hang, so its operations have no deadline. */
  readonly inProcess?: boolean
  /** Resolves when the store is connected; rejects after the timeout. Idempotent. */
  connect?(signal: AbortSignal): Promise<void>
  /** Why the store is not available now; undefined while it is. For `/readyz`. */
  ready?(): string | undefined
  /** A problem for the operator while the store is available. For `/readyz`. */
  warning?(): string | undefined
  /** The time by which what is kept ends, in milliseconds since the epoch; without it, that of the wall clock. */
  now?(): number
  /** Idempotent. */
  close?(): Promise<void>
}
