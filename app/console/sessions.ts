// Sessions of the console. The cookie holds the whole session, sealed by a key that all workers and gateways of one store
// have; what they share beside it is the list of sessions that were ended before their time.
import { createHash, createHmac, randomBytes, timingSafeEqual } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import { type Clock, Refusal, type Reviewer, type SharedMap } from '@svc/core'
import type { SessionKey } from '../admin/session.js'
import type { AdminAuthorizer } from '../policy/admin-authorizer.js'
import type { Proofs } from './proof.js'
import { cookieIn, Sealing } from './sealing.js'

export interface Session {
  readonly id: string
  readonly client: Reviewer
  /** Its private key is in the browser in which the session began, and signs each change. */
  readonly key: SessionKey
  /** That of the admin token with which it began. */
  readonly fingerprint?: string
  /** Milliseconds since the epoch. */
  readonly endsAt: number
  /** When the cookie was sealed. */
  readonly sealedAt: number
}

/** A working day. */
export const SESSION_MS = 12 * 3_600_000
/** Of a session that a token of a user began, which may be stolen sooner than a sign-in. */
export const TOKEN_SESSION_MS = 3_600_000
/** A page that is loaded after this time gets the cookie sealed anew. */
const ROTATE_MS = 900_000
const CSRF_HEADER = 'x-svc-csrf'
const GROUP = 'sessions'

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

  /** Seals what else is in cookies. */
  get sealing(): Sealing {
    return this.#sealing
  }

  /** The `Set-Cookie` header of a new session. */
  async begin(client: Reviewer, key: SessionKey, forMs: number, { token }: AdminAuthorizer): Promise<string> {
    const now = this.#clock.now()
    const fingerprint = client.kind === 'admin' ? await token?.fingerprint() : undefined
    return this.#setCookie({
      id: randomBytes(18).toString('base64url'),
      client,
      key,
      ...(fingerprint === undefined ? {} : { fingerprint }),
      endsAt: now + forMs,
      sealedAt: now,
    })
  }

  /** Ends the session of the request, if there is one. */
  async end(message: Pick<IncomingMessage, 'headers'>): Promise<string> {
    const session = this.#opened(message)
    if (session !== undefined) await this.#ended.set(GROUP, [[session.id, 'ended']])
    return `${this.#cookie}=; ${attributes}; Max-Age=0`
  }

  /** Undefined if there is no session, or it is over. Rejects with `Refusal` if that cannot be known. */
  async find(
    message: Pick<IncomingMessage, 'headers'>,
    { token }: AdminAuthorizer,
  ): Promise<Session | undefined> {
    const session = this.#opened(message)
    if (session === undefined) return undefined
    if (session.client.kind === 'admin' && session.fingerprint !== (await token?.fingerprint()))
      return undefined
    const [ended] = await this.#ended.get(GROUP, [session.id])
    return ended === undefined ? session : undefined
  }

  /** The `Set-Cookie` header that a page sends along; undefined while the cookie is new enough. */
  rotated(session: Session): string | undefined {
    const now = this.#clock.now()
    return now - session.sealedAt < ROTATE_MS ? undefined : this.#setCookie({ ...session, sealedAt: now })
  }

  /** What a page sends with each change, and pages of other origins cannot know. */
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
    return `${this.#cookie}=${this.#sealing.seal(session)}; ${attributes}; Max-Age=${Math.floor(left / 1000)}`
  }

  /** The session in the cookie, if it is ours and not over. */
  #opened({ headers: { cookie } }: Pick<IncomingMessage, 'headers'>): Session | undefined {
    const sealed = cookieIn(cookie, this.#cookie)
    const opened = sealed === undefined ? undefined : this.#sealing.open(sealed)
    // What this key has sealed under this name is a session.
    const session = opened as Session | undefined
    return session !== undefined && this.#clock.now() < session.endsAt ? session : undefined
  }
}

const attributes = 'Path=/; HttpOnly; Secure; SameSite=Strict'
