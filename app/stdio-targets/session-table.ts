// The sessions of clients with one target, of all callers up to a number and of each caller up to its share.
import { Refusal } from '@svc/core'
import type { ClientSession } from './client-session.js'

const maxSessions = 10_000

export class SessionTable {
  #name: string
  #maxPerCaller: number
  /** By id; the one used longest ago first. */
  #sessions = new Map<string, ClientSession>()

  constructor(name: string, maxPerCaller: number) {
    this.#name = name
    this.#maxPerCaller = maxPerCaller
  }

  /** To be called for each message of the session. */
  use(id: string): ClientSession | undefined {
    const session = this.#sessions.get(id)
    if (session !== undefined) this.add(session)
    return session
  }

  get(id: string): ClientSession | undefined {
    return this.#sessions.get(id)
  }

  add(session: ClientSession): void {
    this.#sessions.delete(session.id)
    this.#sessions.set(session.id, session)
  }

  /** False where it has ended already. */
  delete(session: ClientSession): boolean {
    return this.#sessions.delete(session.id)
  }

  /**
   * The session that must end before `caller`, undefined for the gateway itself, begins another: clients often leave
   * without ending theirs. Throws `Refusal` (`RATE_LIMITED`) where all that could end are in use.
   */
  inTheWayOf(caller: string | undefined): ClientSession | undefined {
    const own = caller === undefined ? [] : this.all().filter((session) => session.caller === caller)
    if (own.length >= this.#maxPerCaller) return this.#idle(own, 'The caller has')
    return this.#sessions.size < maxSessions ? undefined : this.#idle(this.all(), 'All callers together have')
  }

  all(): ClientSession[] {
    return [...this.#sessions.values()]
  }

  #idle(sessions: readonly ClientSession[], who: string): ClientSession {
    const idle = sessions.find(({ isIdle }) => isIdle)
    if (idle !== undefined) return idle
    const server = `the MCP server "${this.#name}"`
    throw new Refusal('RATE_LIMITED', `${who} as many sessions of ${server} as allowed, and all are in use.`)
  }
}
