// The browser's side: continues the page that the server has rendered.
import { hydrate } from 'preact'
import type { PageState } from '../api.js'
import { App } from './app.js'
import { sayWhenActive } from './kit/activity.js'
import { browserApi } from './kit/api.js'
import { GatewayEvents } from './kit/gateway-events.js'
import { gatewayClock } from './kit/page.js'

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
