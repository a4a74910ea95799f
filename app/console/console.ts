// The web pages of the admin listener. The server renders them with the client's responses of the admin API; the same code
// continues in the browser.
import { randomBytes } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import { TLSSocket } from 'node:tls'
import { type Clock, Refusal, resolveOptional, services } from '@svc/core'
import type { MapBounds, SharedMap } from '@svc/core/store'
import type { AdminExchange, RequestSession } from '../admin/client.js'
import type { OperationRequest } from '../admin/operation.js'
import type { AdminConsole, ConsoleExchange } from '../admin/session.js'
import { type SessionKey, sessionOf } from '../admin/session.js'
import { requestPath } from '../http/request-errors.js'
import type { BufferedResponse } from '../http/response.js'
import type { Pages } from './api.js'
import { type Assets, assetAt, pageHeaders, readAssets } from './assets.js'
import { Proofs, proofBounds } from './proof.js'
import { type AuthorityOf, endedBounds, type Session, Sessions } from './sessions.js'
import { beginSchema, CALLBACK_PATH, ConsoleSignIn, finishSchema } from './sign-in.js'
import { themeOf } from './theme.js'

interface ConsoleOptions {
  /** 32 bytes. */
  readonly key: Buffer
  readonly clock: Pick<Clock, 'now' | 'monotonic'>
  /** Sessions that were ended, which gateways share. */
  readonly ended: SharedMap
  /** Proofs of changes that were used, which gateways share. */
  readonly used: SharedMap
}

export class Console implements AdminConsole {
  static readonly endedBounds: MapBounds = endedBounds
  static readonly usedBounds: MapBounds = proofBounds
  #clock: Pick<Clock, 'now'>
  #sessions: Sessions
  #signIn: ConsoleSignIn
  #assets: Assets
  #pages: Promise<Pages> | undefined

  constructor({ key, clock, ended, used }: ConsoleOptions) {
    this.#clock = clock
    this.#sessions = new Sessions(key, clock, ended, new Proofs(clock, used))
    const { sealing, cookieName } = this.#sessions
    this.#signIn = new ConsoleSignIn(sealing, `${cookieName}-login`, clock)
    this.#assets = readAssets()
  }

  async begin(request: OperationRequest, key: SessionKey) {
    return { 'set-cookie': await this.#sessions.begin(request.client, key, authorityIn(request)) }
  }

  async end(request: OperationRequest) {
    return { 'set-cookie': await this.#sessions.end(request) }
  }

  async keep(request: OperationRequest) {
    return { 'set-cookie': this.#sessions.kept(request) }
  }

  async sessionOf(message: IncomingMessage, exchange: AdminExchange): Promise<RequestSession | undefined> {
    const session = await this.#sessions.find(message, authorityIn(exchange))
    if (session === undefined) return undefined
    const { client } = session
    return { client, check: (body) => this.#sessions.checkRequest(message, session, body) }
  }

  async respond(message: IncomingMessage, exchange: ConsoleExchange): Promise<BufferedResponse> {
    const { method } = message
    const [path = '', query = ''] = requestPath(message).split('?')
    if (method === 'POST' && path === '/console/login') return this.#beginSignIn(message, exchange)
    if (method === 'POST' && path === CALLBACK_PATH) return this.#finishSignIn(message, exchange)
    if (method !== 'GET' && method !== 'HEAD') {
      throw new Refusal('TARGET_NOT_FOUND', 'Pages of the console are read by GET.')
    }
    const asset = assetAt(this.#assets, path)
    if (asset !== undefined) return asset.respond(message.headers['accept-encoding'])
    const { host = '' } = message.headers
    // Browsers keep secure cookies and passkeys for this name, and not for an address.
    const local = /^(?:127(?:\.\d+){3}|\[::1\])(:\d+)?$/.exec(host)
    if (local !== null)
      return redirect(`${schemeOf(message)}://localhost${local[1] ?? ''}${requestPath(message)}`)
    if (path === '/console' || path === '/console/') return redirect('/console/approvals')
    // The script of this page continues the sign-in with the issuer's response.
    const isCallback = path === CALLBACK_PATH
    const session = isCallback ? undefined : await this.#sessions.find(message, authorityIn(exchange))
    const { 'sec-fetch-site': site, 'sec-fetch-mode': mode = 'navigate' } = message.headers
    const isForeign = site === 'cross-site' || site === 'same-site'
    if (isForeign && mode !== 'navigate') {
      throw new Refusal('TOOL_NOT_ALLOWED', 'A web page of another origin may not load pages from here.')
    }
    // Browsers send a strict cookie with requests that this page causes, and not with those of another site.
    if (session === undefined && isForeign && !isCallback) return this.#again()
    return this.#page({ path: path.slice('/console'.length), query }, { session, message }, exchange)
  }

  async #page(
    location: { readonly path: string; readonly query: string },
    { session, message }: { readonly session: Session | undefined; readonly message: IncomingMessage },
    exchange: ConsoleExchange,
  ): Promise<BufferedResponse> {
    const { authorizer } = exchange
    // The path of a built module: it is compiled apart, as it also runs in browsers.
    this.#pages ??= import(new URL('../console/ui/page.js', import.meta.url).href)
    const pages = await this.#pages
    const client = session?.client
    // Each read by itself, as a page may take long.
    const identify = async () => {
      const found = await this.#sessions.find(message, authorityIn(exchange))
      if (found === undefined) throw new Refusal('UNAUTHENTICATED', 'The session is over.')
      return found.client
    }
    const { status, html } = await pages.render({
      location,
      session: client && sessionOf({ client, access: authorizer.accessOf(client), authorizer }),
      csrf: session === undefined ? '' : this.#sessions.csrfToken(session),
      times: session && this.#sessions.timesOf(session),
      login: {
        token: authorizer.token !== undefined,
        oidc: authorizer.clientId !== undefined,
        users: !authorizer.tokenVotes,
      },
      now: this.#clock.now(),
      theme: themeOf(message.headers.cookie),
      assets: this.#assets,
      ask: async (path) => {
        const { status, body } = await exchange.ask(identify, path)
        return { status, text: String(body) }
      },
    })
    return { status, headers: pageHeaders(this.#assets), body: html }
  }

  async #beginSignIn(message: IncomingMessage, exchange: ConsoleExchange): Promise<BufferedResponse> {
    const given = beginSchema.safeParse(await exchange.readJson())
    if (!given.success) throw new Refusal('BAD_REQUEST', 'Expected {"path": "/console/…"}.')
    const { url, cookie } = await this.#signIn.begin(given.data, originOf(message, exchange), exchange)
    return jsonWith({ url }, cookie)
  }

  async #finishSignIn(message: IncomingMessage, exchange: ConsoleExchange): Promise<BufferedResponse> {
    const given = finishSchema.safeParse(await exchange.readJson())
    if (!given.success) throw new Refusal('BAD_REQUEST', 'Expected {"key": JWK, "query": "?code=…"}.')
    const { key, query } = given.data
    const url = new URL(CALLBACK_PATH, originOf(message, exchange))
    url.search = query
    let path = ''
    const response = await exchange.signIn(async () => {
      const pending = this.#signIn.pending(message.headers)
      path = pending.path
      return { kind: 'user', identity: await this.#signIn.finish(url, pending, exchange) }
    }, key)
    const { 'set-cookie': cookie } = response.headers
    return typeof cookie === 'string' ? jsonWith({ path }, cookie, this.#signIn.cleared) : response
  }

  /** A page that requests itself once more. */
  #again(): BufferedResponse {
    const body = '<!doctype html><meta http-equiv="refresh" content="0"><title>svc</title>'
    return { status: 200, headers: pageHeaders(this.#assets), body }
  }
}

function jsonWith(value: object, ...cookies: string[]): BufferedResponse {
  const headers = { 'content-type': 'application/json', 'set-cookie': cookies }
  return { status: 200, headers, body: `${JSON.stringify(value)}\n` }
}

/** The admin token or issuer of the policy vouches for clients; another one ends their sessions. */
function authorityIn({ authorizer, policy }: Pick<AdminExchange, 'authorizer' | 'policy'>): AuthorityOf {
  return async ({ kind }) => {
    if (kind === 'user' && !authorizer.tokenVotes)
      return JSON.stringify([kind, resolveOptional(policy.container, services.signIn)])
    const { token } = authorizer
    // The policy no longer knows such clients.
    if (kind === 'user' || token === undefined) return randomBytes(18).toString('base64url')
    try {
      return JSON.stringify([kind, await token.fingerprint()])
    } catch (cause) {
      throw new Refusal('STORE_UNAVAILABLE', 'The admin token cannot be read.', { cause })
    }
  }
}

/** The origin at which browsers reach the listener: that of its public URL, else of the host that they asked. */
function originOf({ headers, socket }: IncomingMessage, { authorizer }: AdminExchange): string {
  if (authorizer.publicUrl !== undefined) return new URL(authorizer.publicUrl).origin
  return `${schemeOf({ socket })}://${headers.host ?? 'localhost'}`
}

function schemeOf({ socket }: Pick<IncomingMessage, 'socket'>): string {
  return socket instanceof TLSSocket ? 'https' : 'http'
}

function redirect(location: string): BufferedResponse {
  return { status: 307, headers: { location }, body: '' }
}
