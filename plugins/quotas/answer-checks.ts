// An adapter may be a user's code or a shared server: its answers are checked before they let a call through.

/** The latest instant of a Date, in milliseconds since the epoch. */
const END_OF_TIME = 8.64e15

/** @throws {TypeError} when it is not what `QuotaAdapter.takeToken` promises */
export function checkBucket(answer: { tokens: number; resetAt: number }): void {
  if (!Number.isFinite(answer?.tokens)) {
    throw new TypeError(`takeToken answered no number of tokens: ${String(answer?.tokens)}`)
  }
  checkInstant('takeToken', answer.resetAt)
}

/** @throws {TypeError} when it is not what `QuotaAdapter.incrDaily` promises */
export function checkDay(answer: { count: number; resetAt: number }): void {
  if (!(Number.isSafeInteger(answer?.count) && answer.count > 0)) {
    throw new TypeError(`incrDaily answered no count of calls: ${String(answer?.count)}`)
  }
  checkInstant('incrDaily', answer.resetAt)
}

function checkInstant(method: string, instant: number): void {
  if (!(Number.isFinite(instant) && Math.abs(instant) <= END_OF_TIME)) {
    throw new TypeError(`${method} answered no instant of reset: ${String(instant)}`)
  }
}
