// An adapter is somebody's code or somebody's server: what it answers is checked before it lets a call through.

/** The latest instant a Date can tell, in milliseconds since the epoch. */
const END_OF_TIME = 8.64e15

/** @throws {TypeError} when it is not what `QuotaAdapter.takeToken` promises */
export function checkedBucket(answer: { tokens: number; resetAt: number }): {
  tokens: number
  resetAt: number
} {
  if (!Number.isFinite(answer?.tokens)) {
    throw new TypeError(`takeToken answered no number of tokens: ${String(answer?.tokens)}`)
  }
  checkInstant('takeToken', answer.resetAt)
  return answer
}

/** @throws {TypeError} when it is not what `QuotaAdapter.incrDaily` promises */
export function checkedDay(answer: { count: number; resetAt: number }): { count: number; resetAt: number } {
  if (!(Number.isSafeInteger(answer?.count) && answer.count > 0)) {
    throw new TypeError(`incrDaily answered no count of calls: ${String(answer?.count)}`)
  }
  checkInstant('incrDaily', answer.resetAt)
  return answer
}

function checkInstant(method: string, instant: number): void {
  if (!(Number.isFinite(instant) && Math.abs(instant) <= END_OF_TIME)) {
    throw new TypeError(`${method} answered no instant of reset: ${String(instant)}`)
  }
}
