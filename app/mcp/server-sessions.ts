// Sessions with MCP servers that the gateway has as a client, each opened on first use. A server may keep things in a
// session, so no two callers share one. A server that has ended one says so with 404: another is opened, and the request
// is repeated once.
import type { Clock } from '@svc/core'
import type { ServerSession } from './handshake.js'
import { SessionTable } from './session-table.js'

/** How long a server without sessions counts as such, in milliseconds. */
const statelessMs = 600_000
/** Servers end those that go in their own time. */
const maxSessions = 1000

interface Opened<Session> {
  /** The session, or why there is none. */
  readonly session: Promise<Session>
  /** By the monotonic clock; unknown while it is being opened. */
  until?: number
  hasFailed?: true
}

export interface SessionUse<Session> {
  /** How long a failure counts, in milliseconds; 0 to try again. */
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

  /** The server has ended it. */
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

  /** Those that are open, and those that open now and do not fail. */
  async open(): Promise<Session[]> {
    const settled = await Promise.allSettled(this.#opened.all().map(({ session }) => session))
    return settled.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : []))
  }
}

/**
 * Runs `use` in a session, and once more in another one where the server says that it no longer has the first: it has not
 * acted on the request. `drop` gets the session, and what the server says.
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
