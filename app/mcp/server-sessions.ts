// Sessions with MCP servers in which the gateway is the client. Each is opened on first use, and callers do not share
// sessions, because a server may keep state in them. On 404 a new session is opened and the request is repeated once.
import type { Clock, MaybePromise } from '@svc/core'
import { isJsonObject } from '@svc/core/json'
import { KeptReads } from '@svc/core/store'
import type { ServerSession } from './handshake.js'
import type { Fields } from './rpc-response.js'

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
 * Whether a response says that the server no longer has the session, and so has not acted on the request: by 404, or as
 * servers do that were written before the protocol said so (400, or the error -32001, about a session).
 */
export function isSessionLost(status: number, message: Fields | undefined): boolean {
  if (status === 404) return true
  const error = message?.['error']
  if (!isJsonObject(error)) return false
  const { code, message: text } = error
  const isOfSession = typeof text === 'string' && lostSession.test(text)
  return isOfSession && (status === 400 || code === SESSION_NOT_FOUND)
}

const SESSION_NOT_FOUND = -32001
/** The words of SDKs and their examples; the error of a tool about a session of its own has others, and has run. */
const lostSession =
  /^(?:bad request: |not found: )?(?:session(?: id)? (?:not found|(?:has )?expired|has been terminated|missing|required)\b|(?:no valid|invalid|missing|invalid or missing) session\b|server not initiali[sz]ed|mcp-session-id header is required)/i

/**
 * Runs `use` in a session, and once more in a new one if the server no longer has it. `drop` gets the session and the
 * response.
 */
export async function inSession<
  Session extends Pick<ServerSession, 'sessionId'>,
  Reply extends { readonly status: number; readonly isSessionLost?: boolean },
>(
  open: () => Promise<Session>,
  drop: (session: Session, reply: Reply) => MaybePromise<void>,
  use: (session: Session) => Promise<Reply>,
): Promise<Reply> {
  const session = await open()
  const reply = await use(session)
  const { status, isSessionLost: isLost = status === 404 } = reply
  if (!isLost || session.sessionId === undefined) return reply
  await drop(session, reply)
  return use(await open())
}
