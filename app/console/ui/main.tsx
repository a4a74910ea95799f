// The browser's side: continues the page that the server has rendered.
import { hydrate } from 'preact'
import type { PageState, SessionTimes } from '../api.js'
import { App } from './app.js'
import { type Api, browserApi } from './kit/api.js'
import { GatewayEvents } from './kit/gateway-events.js'
import { gatewayClock } from './kit/page.js'

/** Milliseconds until a failed request is repeated. */
const AGAIN_MS = 10_000

const [root, json] = [document.getElementById('app'), document.getElementById('state')?.textContent]
if (root === null || json === undefined || json === null) throw new Error('the page has no state')
const state: PageState = JSON.parse(json)
const clock = gatewayClock(state.now)
const api = browserApi(state.csrf, clock)
const events = state.session === undefined ? {} : { events: new GatewayEvents() }
const onLive = () => {
  root.dataset['ready'] = ''
}
hydrate(<App state={state} api={api} onLive={onLive} {...events} />, root)
// A page in the browser's cache may belong to a user who has signed out.
addEventListener('pageshow', ({ persisted }) => {
  if (persisted) location.reload()
})
if (state.times !== undefined) sayWhenActive(api, clock, state.times)

/**
 * Reports that the user is active, so that the session does not end as idle; the page's own requests do not count. `now`
 * returns milliseconds by the clock of the gateway.
 */
function sayWhenActive(api: Api, now: () => number, times: SessionTimes): void {
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
