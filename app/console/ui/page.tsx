// Renders a whole page on the server.
import { renderToString } from 'preact-render-to-string'
import type { PageRequest, PageState, Pages } from '../api.js'
import type { StatusJson } from '../status-operation.js'
import { App } from './app.js'
import { type Api, apiRefusalOf, readOnlyApi } from './kit/api.js'
import { viewAt, waitingIn } from './views.js'

export const render: Pages['render'] = async (request) => {
  const { ask, assets, theme, ...given } = request
  const api = readOnlyApi(ask)
  const state: PageState =
    request.session === undefined ? given : { ...given, ...(await loaded(api, request)) }
  const view = viewAt(request.location.path)
  const name = request.session === undefined ? 'Sign in' : (view?.title ?? 'Not found')
  const html = renderToString(
    <html lang="en" data-theme={theme}>
      <head>
        <meta charset="utf-8" />
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <meta name="color-scheme" content="light dark" />
        <title>{titleOf(name, state)}</title>
        <link rel="icon" href={assets.icon.path} type="image/svg+xml" />
        <script type="module" src={assets.script.path} integrity={assets.script.integrity} />
      </head>
      <body>
        <div id="app">
          <App state={state} api={api} />
        </div>
      </body>
    </html>,
  )
  const styled = html.replace('</head>', () => `<style>${assets.style}</style></head>`)
  return { status: statusOf(state, view === undefined), html: withState(`<!doctype html>${styled}`, state) }
}

/** Begins with the number of calls that wait. */
function titleOf(name: string, { status }: PageState): string {
  const waiting = status === undefined ? '' : waitingIn(status)
  return `${waiting === '' ? '' : `(${waiting}) `}${name} · svc`
}

async function loaded(
  api: Api,
  { location }: PageRequest,
): Promise<Pick<PageState, 'status' | 'data' | 'error'>> {
  const view = viewAt(location.path)
  const [status, data] = await Promise.allSettled([
    api.get<StatusJson>('/api/status'),
    view?.load(api, location),
  ])
  return {
    ...(status.status === 'fulfilled' ? { status: status.value } : {}),
    ...(data.status === 'fulfilled' ? { data: data.value } : { error: apiRefusalOf(data.reason) }),
  }
}

/** A reader who may not see a view gets the same page as for one that does not exist. */
function statusOf({ session, error }: PageState, isUnknown: boolean): number {
  if (session === undefined) return 401
  if (isUnknown) return 404
  return error === undefined ? 200 : error.status
}

/** The state with which the browser continues. `<` would end the element. */
function withState(html: string, state: PageState): string {
  const json = JSON.stringify(state).replaceAll('<', '\\u003c')
  return html.replace('</body>', () => `<script type="application/json" id="state">${json}</script></body>`)
}
