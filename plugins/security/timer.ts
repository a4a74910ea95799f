// Waiting, as the stage sees it, so that tests need not wait.
import { token } from '@svc/core'

export interface Timer {
  /** Runs `expire` once after `ms` milliseconds, unless the returned function is called before. Keeps no process alive. */
  after(ms: number, expire: () => void): () => void
}

export const timer = token<Timer>('security/Timer')

export const systemTimer: Timer = {
  after(ms, expire) {
    const timeout = setTimeout(expire, ms).unref()
    return () => clearTimeout(timeout)
  },
}
