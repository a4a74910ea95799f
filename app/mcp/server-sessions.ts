// Sessions with MCP servers in which the gateway is the client. Each is opened on first use, and callers do not share
// sessions, because a server may keep state in them. On 404 a new session is opened and the request is repeated once.
import type { Clock } from '@svc/core'
import type { ServerSession } from './handshake.js'
import { SessionTable } from './session-table.js'

/** Time after which a server without sessions gets another handshake, in milliseconds. */
const statelessMs = 600_000
/** Sessions beyond it are dropped; their servers end them in their own time. */
const maxSessions = 1000

interface Opened<Session> {
  readonly session: Promise<Session>
  /** Monotonic time; undefined while the session is being opened. */
  until?: number
  hasFailed?: true
}

export interface SessionUse<Session> {
  /** Time for which a failure is not tried again, in milliseconds. */
  readonly failureMs: number
  open(): Promise<Session>
}

export class ServerSessions<Session extends ServerSession> {
  #clock: Pick<Clock, 'monotonic'>
  #opened: SessionTable<Opened<Session>>
  #listeners = new Set<(session: Session) => void>()

  constructor(clock: Pick<Clock, 'monotonic'>) {
    this.#clock = clock
    this.#opened = new SessionTable({ clock, peer: 'MCP servers', max: maxSessions })
  }

  /** The session of `key`; concurrent callers share one `open`. Rejects as it does. */
  async of(key: string, { open, failureMs }: SessionUse<Session>): Promise<Session> {
    const known = this.#opened.use(key)
    const isCurrent = known?.until === undefined || this.#clock.monotonic() < known.until
    if (known !== undefined && isCurrent && (known.hasFailed !== true || failureMs > 0)) return known.session
    const opened = this.#opened.add(key, undefined, { session: open() })
    try {
      const session = await opened.session
      opened.until = session.isStateless ? this.#clock.monotonic() + statelessMs : Number.POSITIVE_INFINITY
      for (const listener of this.#listeners) listener(session)
      return session
    } catch (error) {
      opened.hasFailed = true
      opened.until = this.#clock.monotonic() + failureMs
      throw error
    }
  }

  /** Removes a session that the server has ended. */
  async drop(key: string, session: Session): Promise<void> {
    const known = this.#opened.get(key)
    const isSame = known !== undefined && known.hasFailed !== true && (await known.session) === session
    if (isSame && this.#opened.get(key) === known) this.#opened.delete(key)
  }

  /** Runs `listener` for each session that opens from now on. Returns a function that removes it. */
  onOpen(listener: (session: Session) => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  /** The open sessions, including those that are being opened and do not fail. */
  async open(): Promise<Session[]> {
    const settled = await Promise.allSettled(this.#opened.all().map(({ session }) => session))
    return settled.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : []))
  }
}

/**
 * Runs `use` in a session, and once more in a new one if the server responds with 404: it no longer has the session, and
 * has not acted on the request. `drop` gets the session and the response.
 */
export async function inSession<
  Session extends Pick<ServerSession, 'sessionId'>,
  Reply extends { readonly status: number },
>(
  open: () => Promise<Session>,
  drop: (session: Session, reply: Reply) => Promise<void>,
  use: (session: Session) => Promise<Reply>,
): Promise<Reply> {
  const session = await open()
  const reply = await use(session)
  if (reply.status !== 404 || session.sessionId === undefined) return reply
  await drop(session, reply)
  return use(await open())
}
