// Who may go on with an MCP session: the caller that began it. The id that a client gets holds a mark besides the
// server's own id, which nobody else's calls give and nobody can make without the key; so a session id that is seen,
// guessed or handed on is of no use to another caller (MCP, Security Best Practices, "Session Hijacking").
import { createHmac, timingSafeEqual } from 'node:crypto'
import type { IncomingHttpHeaders } from 'node:http'
import { type Call, identity } from '@svc/core'

const SESSION = 'mcp-session-id'

/** Of 128 bits, in base64url; what follows the dot is the server's id. */
const marked = /^([A-Za-z0-9_-]{22})\.(.+)$/s

/**
 * Puts the server's own session id into the headers in place of the client's, and gives the mark that came with it:
 * empty where there was none, undefined without a session.
 */
export function takeMark(headers: IncomingHttpHeaders): string | undefined {
  const given = headers[SESSION]
  if (given === undefined) return undefined
  const [, mark = '', id = ''] = (typeof given === 'string' && marked.exec(given)) || []
  if (id !== '') headers[SESSION] = id
  return mark
}

export class Sessions {
  #key: string

  /** `key`: at least 32 random characters, the same in all gateways that serve one session. */
  constructor(key: string) {
    this.#key = key
  }

  /** Whether `mark` came with this id from an answer to the same caller. */
  holds(call: Call, id: string, mark: string): boolean {
    const expected = Buffer.from(this.#markOf(call, id))
    const given = Buffer.from(mark)
    return given.length === expected.length && timingSafeEqual(given, expected)
  }

  /** The id as the client gets it. */
  marked(call: Call, id: string): string {
    return `${this.#markOf(call, id)}.${id}`
  }

  #markOf(call: Call, id: string): string {
    const { tenant, authenticated, userId, user, clientId } = call.get(identity) ?? nobody
    // The subject stays when an address changes; whoever has none is told by the next best name.
    const who = [userId, user, clientId].map((name) => name ?? null)
    const holder = userId === undefined ? who : [userId]
    const text = JSON.stringify([call.target.server, tenant, authenticated, holder, id])
    return createHmac('sha256', this.#key).update(text).digest('base64url').slice(0, 22)
  }
}

const nobody = { tenant: null, authenticated: false, userId: undefined, user: undefined, clientId: undefined }
