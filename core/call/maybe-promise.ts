// Values that may be promises. Code that uses these functions waits only for promises: a promise costs more than most
// steps of a call.

export type MaybePromise<T> = T | Promise<T>

export function isPending<T>(value: MaybePromise<T>): value is Promise<T> {
  if (typeof value !== 'object' || value === null) return false
  // V8 looks up `'then' in value` anew for each call once it has seen many hidden classes, but remembers a property read.
  return typeof (value as { then?: unknown }).then === 'function'
}

/** Runs `next` with the value, at once if it is not a promise. */
export function after<T, U>(value: MaybePromise<T>, next: (value: T) => MaybePromise<U>): MaybePromise<U> {
  // As `isPending`, which would be a call for each step of a call.
  if (typeof value !== 'object' || value === null) return next(value)
  const { then } = value as { readonly then?: unknown }
  return typeof then === 'function' ? (value as Promise<T>).then(next) : next(value as T)
}

/** The result of `work`, or that of `recover` if `work` throws or rejects. */
export function attempt<T, U>(
  work: () => MaybePromise<T>,
  recover: (error: unknown) => MaybePromise<U>,
): MaybePromise<T | U> {
  try {
    const value = work()
    if (typeof value !== 'object' || value === null) return value
    const { then } = value as { readonly then?: unknown }
    return typeof then === 'function' ? (value as Promise<T>).then<T, U>(undefined, recover) : value
  } catch (error) {
    return recover(error)
  }
}

/** Visits the items in order, from the one at `start`, until a visit has a result. */
export function firstResult<T, R>(
  items: readonly T[],
  visit: (item: T) => MaybePromise<R | undefined>,
  start = 0,
): MaybePromise<R | undefined> {
  for (let i = start; i < items.length; i++) {
    const result = visit(items[i] as T)
    if (isPending(result)) return result.then((found) => found ?? firstResult(items, visit, i + 1))
    if (result !== undefined) return result
  }
  return undefined
}
