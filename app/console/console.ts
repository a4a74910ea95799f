// The web pages of the admin listener. Pages are rendered here, from what the admin API has for the client; the same code
// goes on in the browser.
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http'
import { type Clock, type MapBounds, Refusal, type Reviewer, type SharedMap } from '@svc/core'
import type { AdminConsole, AdminExchange, ConsoleExchange } from '../admin/handler.js'
import type { OperationRequest } from '../admin/operation.js'
import { sessionOf } from '../admin/session.js'
import { requestPath } from '../http/request-errors.js'
import type { BufferedResponse } from '../http/response.js'
import type { Pages } from './api.js'
import { type Assets, pageHeaders, readAssets } from './assets.js'
import { SESSION_MS, type Session, Sessions } from './sessions.js'
import { themeOf } from './theme.js'

interface ConsoleParts {
  /** 32 bytes. */
  readonly key: Buffer
  readonly clock: Pick<Clock, 'now'>
  /** Sessions that were ended, which gateways share. */
  readonly ended: SharedMap
}

export class Console implements AdminConsole {
  static readonly endedBounds: MapBounds = { ttlMs: SESSION_MS, maxEntries: 100_000 }
  #clock: Pick<Clock, 'now'>
  #sessions: Sessions
  #assets: Assets
  #pages: Promise<Pages> | undefined

  constructor({ key, clock, ended }: ConsoleParts) {
    this.#clock = clock
    this.#sessions = new Sessions(key, clock, ended)
    this.#assets = readAssets()
  }

  async begin({ client, authorizer }: OperationRequest) {
    return { 'set-cookie': await this.#sessions.begin(client, authorizer) }
  }

  async end(request: OperationRequest) {
    return { 'set-cookie': await this.#sessions.end(request) }
  }

  async clientOf(message: IncomingMessage, { authorizer }: AdminExchange): Promise<Reviewer | undefined> {
    const session = await this.#sessions.find(message, authorizer)
    if (session !== undefined) this.#sessions.checkRequest(message, session)
    return session?.client
  }

  async respond(message: IncomingMessage, exchange: ConsoleExchange): Promise<BufferedResponse> {
    if (message.method !== 'GET' && message.method !== 'HEAD') {
      throw new Refusal('TARGET_NOT_FOUND', 'Pages of the console are read by GET.')
    }
    const [path = '', query = ''] = requestPath(message).split('?')
    for (const asset of Object.values(this.#assets)) if (asset.path === path) return asset.response
    const { host = '' } = message.headers
    // Browsers keep secure cookies and passkeys for this name, and not for an address.
    const local = /^(?:127(?:\.\d+){3}|\[::1\])(:\d+)?$/.exec(host)
    if (local !== null) return redirect(`http://localhost${local[1] ?? ''}${requestPath(message)}`)
    if (path === '/console' || path === '/console/') return redirect('/console/approvals')
    const session = await this.#sessions.find(message, exchange.authorizer)
    // A strict cookie does not come with a request that another site causes; one that this page causes has it.
    const site = message.headers['sec-fetch-site']
    if (session === undefined && (site === 'cross-site' || site === 'same-site')) return this.#again()
    return this.#page(
      { path: path.slice('/console'.length), query },
      { session, headers: message.headers },
      exchange,
    )
  }

  async #page(
    location: { readonly path: string; readonly query: string },
    {
      session,
      headers: asked,
    }: { readonly session: Session | undefined; readonly headers: IncomingHttpHeaders },
    exchange: ConsoleExchange,
  ): Promise<BufferedResponse> {
    const { authorizer } = exchange
    // The path of a built module: it is compiled apart, as it also runs in browsers.
    this.#pages ??= import(new URL('../console/ui/page.js', import.meta.url).href)
    const pages = await this.#pages
    const client = session?.client
    const { status, html } = await pages.render({
      location,
      session: client && sessionOf({ client, access: authorizer.accessOf(client), authorizer }),
      csrf: session === undefined ? '' : this.#sessions.csrfToken(session),
      login: { token: authorizer.token !== undefined, oidc: false },
      now: this.#clock.now(),
      theme: themeOf(asked.cookie),
      assets: this.#assets,
      async ask(path) {
        if (client === undefined) throw new Error('a page asked the API for nobody')
        const { status, body } = await exchange.ask(client, path)
        return { status, text: String(body) }
      },
    })
    const cookie = session && this.#sessions.rotated(session)
    const headers = {
      ...pageHeaders(this.#assets),
      ...(cookie === undefined ? {} : { 'set-cookie': cookie }),
    }
    return { status, headers, body: html }
  }

  #again(): BufferedResponse {
    const body = '<!doctype html><meta http-equiv="refresh" content="0"><title>svc</title>'
    return { status: 200, headers: pageHeaders(this.#assets), body }
  }
}

function redirect(location: string): BufferedResponse {
  return { status: 307, headers: { location }, body: '' }
}
