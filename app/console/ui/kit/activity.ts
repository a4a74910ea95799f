// Reports that the user is active, so that the session does not end as idle. The page's own requests do not count.
import type { SessionTimes } from '../../api.js'
import type { Api } from './api.js'

/** Milliseconds until a failed request is repeated. */
const AGAIN_MS = 10_000

/** `now` returns milliseconds by the clock of the gateway. */
export function sayWhenActive(api: Api, now: () => number, times: SessionTimes): void {
  const everyMs = times.idleMs / 6
  let next = times.keepFrom
  const say = () => {
    if (document.hidden || now() < next) return
    next = now() + everyMs
    api.send('POST', '/api/session/activity').catch(() => {
      next = now() + AGAIN_MS
    })
  }
  for (const event of ['keydown', 'pointerdown', 'wheel']) {
    addEventListener(event, say, { capture: true, passive: true })
  }
  // Loading the page counts as activity.
  say()
}
