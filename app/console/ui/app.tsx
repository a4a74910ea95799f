// A whole page: the frame, and in it the view, the login, or why there is neither.
import type { JSX } from 'preact'
import { useEffect, useMemo, useState } from 'preact/hooks'
import type { PageState } from '../api.js'
import type { Api } from './kit/api.js'
import { ErrorBanner } from './kit/error-banner.js'
import type { GatewayEvents } from './kit/gateway-events.js'
import { Page } from './kit/page.js'
import { Login } from './login.js'
import { Shell } from './shell.js'
import { viewAt } from './views.js'

interface AppProps {
  readonly state: PageState
  readonly api: Api
  readonly events?: GatewayEvents
  /** Called once the page shows what only the browser knows, such as the zone of the reader. */
  readonly onLive?: () => void
}

export function App({ state, api, events, onLive }: AppProps): JSX.Element {
  const { session, now, login, servedFor, witnessKeys } = state
  const [isLive, setLive] = useState(false)
  useEffect(() => setLive(true), [])
  useEffect(() => {
    if (isLive) onLive?.()
  }, [isLive, onLive])
  const page = useMemo(
    () => ({ api, events, isLive, session, now, login, servedFor, witnessKeys }),
    [api, events, isLive, session, now, login, servedFor, witnessKeys],
  )
  return (
    <Page.Provider value={page}>
      {session === undefined ? (
        <Login login={login} location={state.location} servedFor={servedFor} />
      ) : (
        <Shell state={state}>{contentOf(state)}</Shell>
      )}
    </Page.Provider>
  )
}

function contentOf({ location, data, error }: PageState): JSX.Element {
  const view = viewAt(location.path)
  if (view === undefined || error?.status === 404) {
    return (
      <div class="empty">
        <h1>Not found</h1>
        <p>There is no such page, or it is not for you.</p>
        <a href="/console/approvals">Approvals</a>
      </div>
    )
  }
  if (error !== undefined) {
    return (
      <>
        <h1 class="title">{view.title}</h1>
        <ErrorBanner error={error} />
      </>
    )
  }
  return <view.View data={data} location={location} />
}
