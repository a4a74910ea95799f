// What the stage counts in: a `QuotaAdapter`, or a store of the same methods that answers without a promise.
import type { MaybePromise, QuotaAdapter, StoreLifecycle } from '@svc/core'

type MaybeAsync<F extends (...args: never[]) => unknown> = (
  ...args: Parameters<F>
) => MaybePromise<Awaited<ReturnType<F>>>

export interface QuotaStore extends StoreLifecycle {
  readonly incrDaily: MaybeAsync<QuotaAdapter['incrDaily']>
  readonly takeToken: MaybeAsync<QuotaAdapter['takeToken']>
  readonly refundDaily?: MaybeAsync<NonNullable<QuotaAdapter['refundDaily']>>
}

/** The store for other code, which expects promises. */
export function adapterOf(store: QuotaStore): QuotaAdapter {
  const { refundDaily } = store
  return {
    incrDaily: async (...args) => store.incrDaily(...args),
    takeToken: async (...args) => store.takeToken(...args),
    ...(refundDaily === undefined ? {} : { refundDaily: async (...args) => refundDaily(...args) }),
    ready: () => store.ready?.(),
    warning: () => store.warning?.(),
  }
}
