// The pages of the console from this installation, for the gateway of another machine: the code that a browser runs, such as
// the verifier, is not the gateway's. Requests to the API are passed on with the operator's token, which no page gets. The
// server listens on loopback, where other users and web pages reach it too: a page needs the secret of the link, and a change
// is signed by a key of the browser that opened it.
import { randomBytes, timingSafeEqual } from 'node:crypto'
import {
  createServer,
  type IncomingMessage,
  type OutgoingHttpHeaders,
  type Server,
  type ServerResponse,
} from 'node:http'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { type Clock, hostClock, isRefusal, Refusal, statusOf } from '@svc/core'
import { messageOf } from '@svc/core/json'
import { type MapBounds, memoryMap } from '@svc/core/store'
import { z } from 'zod'
import { fixedHeaders } from '../admin/fixed-headers.js'
import { type SessionJson, sessionKeySchema } from '../admin/session.js'
import { jsonObjectIn, readBody } from '../http/body.js'
import { listenOn } from '../http/listen.js'
import { requestPath } from '../http/request-errors.js'
import type { Pages } from './api.js'
import { type Assets, assetAt, pageHeaders, readAssets } from './assets.js'
import { importSessionKey, Proofs, proofBounds } from './proof.js'
import { endedBounds, type Session, Sessions } from './sessions.js'
import { themeOf } from './theme.js'

/** The admin API of the gateway. */
export interface RemoteApi {
  readonly origin: string
  /** The response as it comes. Rejects if there is none. */
  fetch(path: string, init: RequestInit): Promise<Response>
}

interface Settings {
  readonly clock?: Clock
  /** Verifier keys, one a line. */
  readonly witnessKeys?: string | undefined
  /** Milliseconds within which the gateway has to begin a response. */
  readonly limitMs?: number
}

const listSchema = z.object({ paths: z.record(z.string(), z.record(z.string(), z.unknown())) })
const json = { 'content-type': 'application/json' }
const maxBodyBytes = 65_536
/** Milliseconds after which a response that goes on is passed back only to a session that goes on. */
const EVERY_MS = 1_000
const LIMIT_MS = 30_000
const passedOn = ['accept', 'content-type', 'last-event-id']
const passedBack = ['content-type', 'content-disposition', 'etag']

export class LocalConsole {
  readonly #api: RemoteApi
  readonly #assets: Assets = readAssets()
  readonly #server: Server
  readonly #clock: Clock
  readonly #witnessKeys: string | undefined
  readonly #limitMs: number
  readonly #sessions: Sessions
  /** The ticket in the link, which is used once. */
  #ticket: string | undefined = randomBytes(24).toString('base64url')
  #port = 0
  /** Methods by path, as the gateway lists them. */
  #operations: z.output<typeof listSchema>['paths'] | undefined

  constructor(api: RemoteApi, { clock = hostClock, witnessKeys, limitMs = LIMIT_MS }: Settings = {}) {
    this.#api = api
    this.#witnessKeys = witnessKeys
    this.#limitMs = limitMs
    this.#clock = clock
    const map = (bounds: MapBounds) => memoryMap(bounds, clock)
    const proofs = new Proofs(clock, map(proofBounds))
    this.#sessions = new Sessions(randomBytes(32), clock, map(endedBounds), proofs)
    this.#server = createServer((message, response) => {
      this.#handle(message, response).catch((error: unknown) => {
        if (response.headersSent) return void response.destroy()
        const { status, text } = refused(error)
        const isApi = message.url?.startsWith('/api/') === true
        if (isApi) respond(response, status, text, json)
        else respond(response, status, `${messageOf(error)}\n`)
      })
    })
  }

  /** Resolves with the link that opens the console. */
  async listen(port: number): Promise<string> {
    this.#port = await listenOn(this.#server, { host: '127.0.0.1', port })
    // Browsers do not send the part behind the #.
    return `${this.#origin}/console/approvals#${this.#ticket}`
  }

  async close(): Promise<void> {
    const closed = new Promise((resolve) => this.#server.close(resolve))
    this.#server.closeAllConnections()
    await closed
  }

  get #origin(): string {
    return `http://localhost:${this.#port}`
  }

  async #handle(message: IncomingMessage, response: ServerResponse): Promise<void> {
    const { host, origin } = message.headers
    const { 'sec-fetch-site': site, 'sec-fetch-mode': mode } = message.headers
    const isForeign = (site === 'cross-site' || site === 'same-site') && mode !== 'navigate'
    const isOwn = host === `localhost:${this.#port}` && (origin === undefined || origin === this.#origin)
    if (!isOwn || isForeign) return respond(response, 403, 'This is for its own pages.\n')
    const [path = '', query = ''] = requestPath(message).split('?')
    const asset = assetAt(this.#assets, path)?.respond(message.headers['accept-encoding'])
    if (asset !== undefined) return respond(response, asset.status, asset.body, asset.headers)
    if (path === '/api/session' && message.method === 'POST') return this.#begin(message, response)
    if (path.startsWith('/api/')) return this.#passOn(message, response)
    if (path === '/console' || path === '/console/') {
      return respond(response, 307, '', { location: '/console/approvals' })
    }
    if (!path.startsWith('/console/')) return respond(response, 404, 'There is no such page.\n')
    await this.#page({ path: path.slice('/console'.length), query }, message, response)
  }

  /** Begins the session of the browser that opens the link, with a key that does not leave it. */
  async #begin(message: IncomingMessage, response: ServerResponse): Promise<void> {
    const [, given = ''] = /^Bearer ([\w-]+)$/.exec(message.headers.authorization ?? '') ?? []
    const body = jsonObjectIn(await readBody(message, maxBodyBytes))
    const key = sessionKeySchema.safeParse(body['key']).data
    if (this.#ticket === undefined || key === undefined || !isEqual(given, this.#ticket)) {
      throw new Refusal('UNAUTHENTICATED', 'The link works once; start npx svc-sdk console again.')
    }
    importSessionKey(key)
    this.#ticket = undefined
    const cookie = await this.#sessions.begin({ kind: 'admin' }, key, vouchForAll)
    respond(response, 200, '{}\n', { ...json, 'set-cookie': cookie })
  }

  /** Undefined if there is none, or it is over. */
  #sessionOf(message: IncomingMessage): Promise<Session | undefined> {
    return this.#sessions.find(message, vouchForAll)
  }

  async #passOn(message: IncomingMessage, response: ServerResponse): Promise<void> {
    const { method = 'GET', headers } = message
    const isRead = method === 'GET' || method === 'HEAD'
    const body = isRead ? new Uint8Array() : new Uint8Array(await readBody(message, maxBodyBytes))
    // A body may end after the session.
    const session = await this.#sessionOf(message)
    if (session === undefined) {
      throw new Refusal('UNAUTHENTICATED', 'Open the link that npx svc-sdk console printed; it works once.')
    }
    await this.#sessions.checkRequest(message, session, async () => body)
    const path = requestPath(message)
    const ending = new AbortController()
    const timer = setInterval(async () => {
      if ((await this.#sessionOf(message)) !== undefined) return
      ending.abort(new Refusal('UNAUTHENTICATED', 'The session is over.'))
    }, EVERY_MS)
    response.once('close', () => {
      clearInterval(timer)
      ending.abort()
    })
    // The gateway has no session for the token, so only the session here ends or goes on.
    const cookie = isRead ? undefined : await this.#sessionCookie(path, message)
    if (cookie !== undefined) return respond(response, 200, '{}\n', { ...json, 'set-cookie': cookie })
    if (!isPlain(path) || !(await this.#isListed(method, path, ending.signal)))
      throw new Refusal('TARGET_NOT_FOUND', 'The API has no operation with such a path.')
    const given = passedOn.flatMap((name) => {
      const value = headers[name]
      return typeof value === 'string' ? [[name, value] as const] : []
    })
    const found = await this.#within((silent) =>
      this.#api.fetch(path, {
        method,
        headers: Object.fromEntries(given),
        signal: AbortSignal.any([ending.signal, silent]),
        ...(isRead ? {} : { body }),
      }),
    )
    response.writeHead(found.status, {
      ...Object.fromEntries(
        passedBack.flatMap((name) =>
          found.headers.has(name) ? [[name, found.headers.get(name) ?? '']] : [],
        ),
      ),
      // If the gateway sends a page, these headers keep it from running as one of this origin.
      ...fixedHeaders,
    })
    response.flushHeaders()
    if (found.body === null) return void response.end()
    await pipeline(Readable.fromWeb(found.body as Parameters<typeof Readable.fromWeb>[0]), response)
  }

  /** Whether the gateway lists the operation, so that the token goes with no other request. */
  async #isListed(method: string, path: string, ended: AbortSignal): Promise<boolean> {
    this.#operations ??= await this.#within(async (silent) => {
      const signal = AbortSignal.any([ended, silent])
      const found = await this.#api.fetch('/api/openapi.json', { signal })
      return listSchema.parse(await found.json()).paths
    })
    const wanted = method === 'HEAD' ? 'get' : method.toLowerCase()
    const segments = path.replace(/\?.*/s, '').split('/')
    return Object.entries(this.#operations).some(([template, methods]) => {
      const known = template.split('/')
      const isSame = known.every((segment, at) => segment === '{id}' || segment === segments[at])
      return isSame && known.length === segments.length && Object.hasOwn(methods, wanted)
    })
  }

  /** Rejects with `Refusal`, also if the gateway does not respond; what begins in time may go on. */
  async #within<T>(ask: (silent: AbortSignal) => Promise<T>): Promise<T> {
    const silence = new AbortController()
    const timer = setTimeout(() => silence.abort(), this.#limitMs)
    try {
      return await ask(silence.signal)
    } catch (cause) {
      if (isRefusal(cause)) throw cause
      const how = silence.signal.aborted
        ? `has not responded within ${this.#limitMs / 1000} seconds`
        : `does not respond: ${messageOf(cause)}`
      throw new Refusal('UPSTREAM_UNREACHABLE', `The gateway at ${this.#api.origin} ${how}.`, { cause })
    } finally {
      clearTimeout(timer)
    }
  }

  /** The cookie after a request that ends or keeps the session; undefined after another. */
  async #sessionCookie(path: string, message: IncomingMessage): Promise<string | undefined> {
    if (path === '/api/session') return this.#sessions.end(message)
    return path === '/api/session/activity' ? this.#sessions.kept(message) : undefined
  }

  async #page(
    location: { readonly path: string; readonly query: string },
    message: IncomingMessage,
    response: ServerResponse,
  ): Promise<void> {
    // The path of a built module: it is compiled apart, as it also runs in browsers.
    const pages: Pages = await import(new URL('../console/ui/page.js', import.meta.url).href)
    const ask = (path: string) =>
      this.#within(async (signal) => {
        const found = await this.#api.fetch(path, { signal })
        return { status: found.status, text: await found.text() }
      })
    const session = await this.#sessionOf(message)
    const shown = session && (await ask('/api/session'))
    const { status, html } = await pages.render({
      location,
      session: shown?.status === 200 ? (JSON.parse(shown.text) as SessionJson) : undefined,
      csrf: session === undefined ? '' : this.#sessions.csrfToken(session),
      times: session && this.#sessions.timesOf(session),
      login: { token: false, oidc: false, users: false },
      now: this.#clock.now(),
      theme: themeOf(message.headers.cookie),
      assets: this.#assets,
      servedFor: this.#api.origin,
      witnessKeys: this.#witnessKeys,
      ask: (path) => ask(path).catch(refused),
    })
    respond(response, status, html, pageHeaders(this.#assets))
  }
}

/** False for a path that a URL or a proxy reads as another, such as `/api/../x`. */
function isPlain(path: string): boolean {
  const [written = ''] = path.split('?')
  const { pathname } = new URL(path, 'http://localhost')
  return pathname === written && /^(?:\/[\w.~%-]+)+$/.test(written) && !/%(?:2e|2f|5c)/i.test(written)
}

/** The response of the API for an error. */
function refused(error: unknown): { status: number; text: string } {
  const { code, message } = isRefusal(error) ? error : new Refusal('INTERNAL', messageOf(error))
  return { status: statusOf(code), text: `${JSON.stringify({ error: code, message })}\n` }
}

function respond(
  response: ServerResponse,
  status: number,
  body: string | Uint8Array,
  headers: OutgoingHttpHeaders = { 'content-type': 'text/plain; charset=utf-8' },
): void {
  response.writeHead(status, { ...fixedHeaders, ...headers })
  response.end(body)
}

function isEqual(one: string, other: string): boolean {
  const [a, b] = [Buffer.from(one), Buffer.from(other)]
  return a.length === b.length && timingSafeEqual(a, b)
}

/** The link vouches for the session, until it ends by itself. */
async function vouchForAll(): Promise<string> {
  return ''
}
