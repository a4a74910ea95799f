// Sessions of the console. The cookie holds the whole session, sealed by a key that all workers and gateways of one store
// have; what they share beside it is the list of sessions that were ended before their time.
import {
  createCipheriv,
  createDecipheriv,
  createHash,
  createHmac,
  randomBytes,
  timingSafeEqual,
} from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import { type Clock, Refusal, type Reviewer, type SharedMap } from '@svc/core'
import type { AdminAuthorizer } from '../policy/admin-authorizer.js'

export interface Session {
  readonly id: string
  readonly client: Reviewer
  /** That of the admin token with which it began. */
  readonly fingerprint?: string
  /** Milliseconds since the epoch. */
  readonly begunAt: number
  /** When the cookie was sealed. */
  readonly sealedAt: number
}

/** A working day. */
export const SESSION_MS = 12 * 3_600_000
/** A page that is loaded after this time gets the cookie sealed anew. */
const ROTATE_MS = 900_000
const CSRF_HEADER = 'x-svc-csrf'
const GROUP = 'sessions'

export class Sessions {
  #key: Buffer
  #clock: Pick<Clock, 'now'>
  #ended: SharedMap
  /** Cookies are sent to every port of a host; each key has a cookie of its own. */
  #cookie: string

  constructor(key: Buffer, clock: Pick<Clock, 'now'>, ended: SharedMap) {
    this.#key = key
    this.#clock = clock
    this.#ended = ended
    this.#cookie = `__Host-svc-${createHash('sha256').update(key).digest('hex').slice(0, 8)}`
  }

  /** The `Set-Cookie` header of a new session. */
  async begin(client: Reviewer, { token }: AdminAuthorizer): Promise<string> {
    const now = this.#clock.now()
    const fingerprint = client.kind === 'admin' ? await token?.fingerprint() : undefined
    return this.#setCookie({
      id: randomBytes(18).toString('base64url'),
      client,
      ...(fingerprint === undefined ? {} : { fingerprint }),
      begunAt: now,
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
  checkRequest({ method, headers }: Pick<IncomingMessage, 'method' | 'headers'>, session: Session): void {
    const site = headers['sec-fetch-site']
    if (site !== undefined && site !== 'same-origin' && site !== 'none') {
      throw new Refusal('TOOL_NOT_ALLOWED', 'A web page of another origin may not send requests here.')
    }
    if (method === 'GET' || method === 'HEAD') return
    const given = Buffer.from(String(headers[CSRF_HEADER] ?? ''))
    const expected = Buffer.from(this.csrfToken(session))
    if (given.length === expected.length && timingSafeEqual(given, expected)) return
    throw new Refusal(
      'TOOL_NOT_ALLOWED',
      `${CSRF_HEADER}: expected the token of the session's page; load it again.`,
    )
  }

  #setCookie(session: Session): string {
    const left = session.begunAt + SESSION_MS - this.#clock.now()
    return `${this.#cookie}=${this.#seal(session)}; ${attributes}; Max-Age=${Math.floor(left / 1000)}`
  }

  #seal(session: Session): string {
    const nonce = randomBytes(12)
    const cipher = createCipheriv('aes-256-gcm', this.#key, nonce)
    const sealed = [nonce, cipher.update(JSON.stringify(session)), cipher.final()]
    return Buffer.concat([...sealed, cipher.getAuthTag()]).toString('base64url')
  }

  /** The session in the cookie, if it is ours and not too old. */
  #opened({ headers: { cookie = '' } }: Pick<IncomingMessage, 'headers'>): Session | undefined {
    for (const part of cookie.split(';')) {
      const [name, value = ''] = part.trim().split('=')
      const session = name === this.#cookie ? this.#unsealed(Buffer.from(value, 'base64url')) : undefined
      if (session !== undefined && this.#clock.now() - session.begunAt < SESSION_MS) return session
    }
    return undefined
  }

  #unsealed(bytes: Buffer): Session | undefined {
    if (bytes.length < 29) return undefined
    const decipher = createDecipheriv('aes-256-gcm', this.#key, bytes.subarray(0, 12))
    decipher.setAuthTag(bytes.subarray(-16))
    try {
      const text = Buffer.concat([decipher.update(bytes.subarray(12, -16)), decipher.final()])
      return JSON.parse(text.toString())
    } catch {
      // Not sealed by this key: it is no session of ours.
      return undefined
    }
  }
}

const attributes = 'Path=/; HttpOnly; Secure; SameSite=Strict'
