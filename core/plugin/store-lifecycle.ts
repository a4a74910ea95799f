// What the storage ports have in common besides their operations. `StoreResource` in `@svc/core/store` calls these.

export interface StoreLifecycle {
  /** True for a store that keeps its data in this process: it cannot hang, so its operations need no deadline. */
  readonly inProcess?: boolean
  /** Resolves when the store can serve; rejects when it cannot be reached in time. Safe twice. */
  connect?(signal: AbortSignal): Promise<void>
  /** Why the store could not serve now; undefined while it could. For `/readyz`. */
  ready?(): string | undefined
  /** What an operator should repair though the store can serve. For `/readyz`. */
  warning?(): string | undefined
  /** Safe twice. */
  close?(): Promise<void>
}
