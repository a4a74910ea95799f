// Sessions of the console. The cookie holds the whole session, sealed by a key that all workers and gateways of one store
// have; what they share beside it is the list of sessions that were ended before their time.
import { createHash, createHmac, randomBytes, timingSafeEqual } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import { type Clock, Refusal, type Reviewer } from '@svc/core'
import type { MapBounds, SharedMap } from '@svc/core/store'
import type { SessionKey } from '../admin/session.js'
import type { SessionTimes } from './api.js'
import { importSessionKey, type Proofs } from './proof.js'
import { cookieIn, Sealing } from './sealing.js'

export interface Session {
  readonly id: string
  readonly client: Reviewer
  /** Its private key is in the browser in which the session began, and signs each change. */
  readonly key: SessionKey
  /** The admin token or issuer that vouched for the client; another one ends the session. */
  readonly authority: string
  /** Milliseconds since the epoch. */
  readonly endsAt: number
  /** When the cookie was sealed. */
  readonly sealedAt: number
}

/** A working day, for the admin token. */
const TOKEN_MS = 12 * 3_600_000
/** The time after which a session of a person ends, and with it a role that the issuer has taken away. */
const PERSON_MS = 3_600_000
/** The time without activity of the user (NIST SP 800-63B). The page reports activity; the page's own requests do not count. */
const IDLE_MS = 1_800_000
/** Another activity within this time changes nothing. */
const KEPT_MS = 300_000
const CSRF_HEADER = 'x-svc-csrf'
/** Each client has a group, so that one client does not displace the ended sessions of others. */
export const endedBounds: MapBounds = { ttlMs: TOKEN_MS, maxEntries: 10_000 }

/** The authority that vouches for the client now. Rejects with `Refusal` if that cannot be known. */
export type AuthorityOf = (client: Reviewer) => Promise<string>

export class Sessions {
  #key: Buffer
  #sealing: Sealing
  #proofs: Proofs
  #clock: Pick<Clock, 'now'>
  #ended: SharedMap
  /** Cookies are sent to every port of a host; each key has a cookie of its own. */
  #cookie: string

  constructor(key: Buffer, clock: Pick<Clock, 'now'>, ended: SharedMap, proofs: Proofs) {
    this.#key = key
    this.#sealing = new Sealing(key)
    this.#proofs = proofs
    this.#clock = clock
    this.#ended = ended
    this.#cookie = `__Host-svc-${createHash('sha256').update(key).digest('hex').slice(0, 8)}`
  }

  /** The name of the cookie. */
  get cookieName(): string {
    return this.#cookie
  }

  /** Seals the other values in cookies. */
  get sealing(): Sealing {
    return this.#sealing
  }

  /** The `Set-Cookie` header of a new session. Rejects with `Refusal` if the key is not one. */
  async begin(client: Reviewer, key: SessionKey, authorityOf: AuthorityOf): Promise<string> {
    const now = this.#clock.now()
    importSessionKey(key)
    return this.#setCookie({
      id: randomBytes(18).toString('base64url'),
      client,
      key,
      authority: await authorityOf(client),
      endsAt: now + (client.kind === 'admin' ? TOKEN_MS : PERSON_MS),
      sealedAt: now,
    })
  }

  /** Ends the session of the request, if there is one. */
  async end(message: Pick<IncomingMessage, 'headers'>): Promise<string> {
    const session = this.#opened(message)
    if (session !== undefined) await this.#ended.set(groupOf(session), [[session.id, 'ended']])
    return `${this.#cookie}=; ${attributes}; Max-Age=0`
  }

  /** Undefined if there is no session, or it is over. Rejects with `Refusal` if that cannot be known. */
  async find(
    message: Pick<IncomingMessage, 'headers'>,
    authorityOf: AuthorityOf,
  ): Promise<Session | undefined> {
    const session = this.#opened(message)
    if (session === undefined) return undefined
    if (session.authority !== (await authorityOf(session.client))) return undefined
    const [ended] = await this.#ended.get(groupOf(session), [session.id])
    return ended === undefined ? session : undefined
  }

  /** The `Set-Cookie` header that keeps a session whose user is active. A cookie that was copied before ends as idle. */
  kept(message: Pick<IncomingMessage, 'headers'>): string {
    const session = this.#opened(message)
    if (session === undefined) throw new Refusal('UNAUTHENTICATED', 'The session is over.')
    return this.#setCookie({ ...session, sealedAt: this.#clock.now() })
  }

  timesOf({ endsAt, sealedAt }: Session): SessionTimes {
    return { endsAt, idleMs: IDLE_MS, keepFrom: sealedAt + KEPT_MS }
  }

  /** A token that a page sends with each change, and that pages of other origins cannot read. */
  csrfToken({ id }: Session): string {
    return createHmac('sha256', this.#key).update(`csrf ${id}`).digest('base64url')
  }

  /** @throws {Refusal} `TOOL_NOT_ALLOWED` for a request that no page of this listener sent */
  async checkRequest(
    message: Pick<IncomingMessage, 'method' | 'url' | 'headers'>,
    session: Session,
    body: () => Promise<Uint8Array>,
  ): Promise<void> {
    const { method, headers } = message
    const site = headers['sec-fetch-site']
    if (site !== undefined && site !== 'same-origin' && site !== 'none') {
      throw new Refusal('TOOL_NOT_ALLOWED', 'A web page of another origin may not send requests here.')
    }
    if (method === 'GET' || method === 'HEAD') return
    const given = Buffer.from(String(headers[CSRF_HEADER] ?? ''))
    const expected = Buffer.from(this.csrfToken(session))
    if (given.length !== expected.length || !timingSafeEqual(given, expected)) {
      throw new Refusal(
        'TOOL_NOT_ALLOWED',
        `${CSRF_HEADER}: expected the token of the session's page; load it again.`,
      )
    }
    await this.#proofs.check(message, await body(), session.key)
  }

  #setCookie(session: Session): string {
    const left = session.endsAt - this.#clock.now()
    const sealed = this.#sealing.seal(this.#cookie, session)
    return `${this.#cookie}=${sealed}; ${attributes}; Max-Age=${Math.floor(left / 1000)}`
  }

  /** The session in the cookie, if it is ours and not over. */
  #opened({ headers: { cookie } }: Pick<IncomingMessage, 'headers'>): Session | undefined {
    const sealed = cookieIn(cookie, this.#cookie)
    const opened = sealed === undefined ? undefined : this.#sealing.open(this.#cookie, sealed)
    // Only sessions are sealed with this key under this name.
    const session = opened as Session | undefined
    if (session === undefined) return undefined
    return this.#clock.now() < Math.min(session.endsAt, session.sealedAt + IDLE_MS) ? session : undefined
  }
}

function groupOf({ client }: Session): string {
  return `sessions ${createHash('sha256').update(JSON.stringify(client)).digest('hex')}`
}

export const attributes = 'Path=/; HttpOnly; Secure; SameSite=Strict'
