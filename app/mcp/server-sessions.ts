// Sessions with MCP servers in which the gateway is the client. Each is opened on first use, and callers do not share
// sessions, because a server may keep state in them. On 404 a new session is opened and the request is repeated once.
import type { Clock, MaybePromise } from '@svc/core'
import { KeptReads } from '@svc/core/store'
import type { ServerSession } from './handshake.js'

/** Time after which a server without sessions gets another handshake, in milliseconds. */
const statelessMs = 600_000
/** Sessions beyond it are dropped; their servers end them in their own time. */
const maxSessions = 1000

export interface SessionUse<Session> {
  /** Time for which a failure is not tried again, in milliseconds. */
  readonly failureMs: number
  open(): Promise<Session>
}

export class ServerSessions<Session extends ServerSession> {
  #sessions: KeptReads<Session>
  #listeners = new Set<(session: Session) => void>()

  constructor(clock: Pick<Clock, 'monotonic'>) {
    this.#sessions = new KeptReads(clock, maxSessions)
  }

  /** The session of `key`; concurrent callers share one `open`. Rejects as it does. */
  of(key: string, { open, failureMs }: SessionUse<Session>): Promise<Session> {
    const read = async (): Promise<Session> => {
      const session = await open()
      for (const listener of this.#listeners) listener(session)
      return session
    }
    const keptMs = ({ isStateless }: Session): number =>
      isStateless ? statelessMs : Number.POSITIVE_INFINITY
    return this.#sessions.of(key, { read, keptMs, failureMs })
  }

  /** Removes a session that the server has ended. */
  drop(key: string, session: Session): void {
    this.#sessions.drop(key, session)
  }

  /** Runs `listener` for each session that opens from now on. Returns a function that removes it. */
  onOpen(listener: (session: Session) => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  /** The open sessions, without those that are being opened. */
  current(): Session[] {
    return this.#sessions.current()
  }

  /** The open sessions, including those that are being opened and do not fail. */
  open(): Promise<Session[]> {
    return this.#sessions.all()
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
  drop: (session: Session, reply: Reply) => MaybePromise<void>,
  use: (session: Session) => Promise<Reply>,
): Promise<Reply> {
  const session = await open()
  const reply = await use(session)
  if (reply.status !== 404 || session.sessionId === undefined) return reply
  await drop(session, reply)
  return use(await open())
}
