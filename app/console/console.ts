// The web pages of the admin listener. Pages are rendered here, from what the admin API has for the client; the same code
// goes on in the browser.
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http'
import { TLSSocket } from 'node:tls'
import { type Clock, type MapBounds, Refusal, type Reviewer, type SharedMap } from '@svc/core'
import type { AdminConsole, AdminExchange, ConsoleExchange } from '../admin/handler.js'
import type { OperationRequest } from '../admin/operation.js'
import { type SessionKey, sessionOf } from '../admin/session.js'
import { requestPath } from '../http/request-errors.js'
import type { BufferedResponse } from '../http/response.js'
import type { Pages } from './api.js'
import { type Assets, pageHeaders, readAssets } from './assets.js'
import { Proofs, proofBounds } from './proof.js'
import { SESSION_MS, type Session, Sessions, TOKEN_SESSION_MS } from './sessions.js'
import { beginSchema, CALLBACK_PATH, ConsoleSignIn } from './sign-in.js'
import { themeOf } from './theme.js'

interface ConsoleParts {
  /** 32 bytes. */
  readonly key: Buffer
  readonly clock: Pick<Clock, 'now'>
  /** Sessions that were ended, which gateways share. */
  readonly ended: SharedMap
  /** Proofs of changes that were used, which gateways share. */
  readonly used: SharedMap
}

export class Console implements AdminConsole {
  static readonly endedBounds: MapBounds = { ttlMs: SESSION_MS, maxEntries: 100_000 }
  static readonly usedBounds: MapBounds = proofBounds
  #clock: Pick<Clock, 'now'>
  #sessions: Sessions
  #signIn: ConsoleSignIn
  #assets: Assets
  #pages: Promise<Pages> | undefined

  constructor({ key, clock, ended, used }: ConsoleParts) {
    this.#clock = clock
    this.#sessions = new Sessions(key, clock, ended, new Proofs(clock, used))
    const { sealing, cookieName } = this.#sessions
    this.#signIn = new ConsoleSignIn(sealing, `${cookieName}-login`, clock)
    this.#assets = readAssets()
  }

  async begin({ client, authorizer }: OperationRequest, key: SessionKey) {
    const forMs = client.kind === 'admin' ? SESSION_MS : TOKEN_SESSION_MS
    return { 'set-cookie': await this.#sessions.begin(client, key, forMs, authorizer) }
  }

  async end(request: OperationRequest) {
    return { 'set-cookie': await this.#sessions.end(request) }
  }

  async clientOf(
    message: IncomingMessage,
    { authorizer }: AdminExchange,
    body: () => Promise<Uint8Array>,
  ): Promise<Reviewer | undefined> {
    const session = await this.#sessions.find(message, authorizer)
    if (session !== undefined) await this.#sessions.checkRequest(message, session, body)
    return session?.client
  }

  async respond(message: IncomingMessage, exchange: ConsoleExchange): Promise<BufferedResponse> {
    const { method } = message
    const [path = '', query = ''] = requestPath(message).split('?')
    if (method === 'POST' && path === '/console/login') return this.#beginSignIn(message, exchange)
    if (method !== 'GET' && method !== 'HEAD') {
      throw new Refusal('TARGET_NOT_FOUND', 'Pages of the console are read by GET.')
    }
    for (const asset of Object.values(this.#assets)) if (asset.path === path) return asset.response
    const { host = '' } = message.headers
    // Browsers keep secure cookies and passkeys for this name, and not for an address.
    const local = /^(?:127(?:\.\d+){3}|\[::1\])(:\d+)?$/.exec(host)
    if (local !== null) return redirect(`http://localhost${local[1] ?? ''}${requestPath(message)}`)
    if (path === CALLBACK_PATH) return this.#finishSignIn(message, exchange)
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
      login: {
        token: authorizer.token !== undefined,
        oidc: authorizer.clientId !== undefined,
        users: !authorizer.tokenVotes,
      },
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

  async #beginSignIn(message: IncomingMessage, exchange: ConsoleExchange): Promise<BufferedResponse> {
    const given = beginSchema.safeParse(await exchange.readJson())
    if (!given.success) throw new Refusal('BAD_REQUEST', 'Expected {"key": JWK, "path": "/console/…"}.')
    const { url, cookie } = await this.#signIn.begin(given.data, originOf(message, exchange), exchange)
    const headers = { 'content-type': 'application/json', 'set-cookie': cookie }
    return { status: 200, headers, body: `${JSON.stringify({ url })}\n` }
  }

  async #finishSignIn(message: IncomingMessage, exchange: ConsoleExchange): Promise<BufferedResponse> {
    const url = new URL(requestPath(message), originOf(message, exchange))
    const { identity, key, path } = await this.#signIn.finish(url, message.headers, exchange)
    const client: Reviewer = { kind: 'user', identity }
    const cookie = await this.#sessions.begin(client, key, SESSION_MS, exchange.authorizer)
    const { headers, ...page } = this.#again(path)
    return { ...page, headers: { ...headers, 'set-cookie': [cookie, this.#signIn.cleared] } }
  }

  /** A page that goes on to `path` by itself; default: to its own. */
  #again(path = ''): BufferedResponse {
    const url = path === '' ? '' : `;url=${path.replaceAll('&', '&amp;')}`
    const body = `<!doctype html><meta http-equiv="refresh" content="0${url}"><title>svc</title>`
    return { status: 200, headers: pageHeaders(this.#assets), body }
  }
}

/** Where browsers reach the listener: its public URL, else the host that they asked. */
function originOf({ headers, socket }: IncomingMessage, { authorizer }: AdminExchange): string {
  if (authorizer.publicUrl !== undefined) return new URL(authorizer.publicUrl).origin
  return `${socket instanceof TLSSocket ? 'https' : 'http'}://${headers.host ?? 'localhost'}`
}

function redirect(location: string): BufferedResponse {
  return { status: 307, headers: { location }, body: '' }
}
