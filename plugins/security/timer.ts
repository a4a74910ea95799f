// The timer of the stage, which tests replace.
import { token } from '@svc/core'

export interface Timer {
  /** Runs `expire` after `ms` milliseconds. The returned function cancels it. A pending timer does not keep the process alive. */
  after(ms: number, expire: () => void): () => void
  /** Milliseconds, monotonic. */
  now(): number
}

export const timer = token<Timer>('security/Timer')

export const systemTimer: Timer = {
  after(ms, expire) {
    const timeout = setTimeout(expire, ms).unref()
    return () => clearTimeout(timeout)
  },
  now: () => performance.now(),
}
