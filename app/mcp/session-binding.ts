// Binds MCP sessions to the caller that began them. The session id of a client is the server's own id after a tag, an
// HMAC of the id and the caller: a session id that is seen, guessed or passed on is of no use to another caller (MCP,
// Security Best Practices, "Session Hijacking").
import { createHmac, timingSafeEqual } from 'node:crypto'
import type { IncomingHttpHeaders } from 'node:http'
import { type Call, identity, principalKeyOf } from '@svc/core'

const SESSION = 'mcp-session-id'

/** A tag of 128 bits in base64url, a dot, the server's id. */
const boundId = /^([A-Za-z0-9_-]{22})\.(.+)$/s

/**
 * The headers with the server's own session id in place of the client's, and the tag that came with it: empty where
 * there was none, undefined without a session.
 */
export function splitSessionId(headers: IncomingHttpHeaders): {
  readonly headers: IncomingHttpHeaders
  readonly sessionTag: string | undefined
} {
  const given = headers[SESSION]
  if (given === undefined) return { headers, sessionTag: undefined }
  const [, sessionTag, id] = (typeof given === 'string' && boundId.exec(given)) || []
  if (sessionTag === undefined || id === undefined) return { headers, sessionTag: '' }
  return { headers: { ...headers, [SESSION]: id }, sessionTag }
}

export class SessionBinding {
  #key: string

  /** `key`: at least 32 random characters, the same in all gateways that serve one session. */
  constructor(key: string) {
    this.#key = key
  }

  /** Whether `tag` came with this id in an answer to the same caller. */
  isBound(call: Call, id: string, tag: string): boolean {
    const expected = Buffer.from(this.#tagOf(call, id))
    const given = Buffer.from(tag)
    return given.length === expected.length && timingSafeEqual(given, expected)
  }

  /** The id for the client. */
  bind(call: Call, id: string): string {
    return `${this.#tagOf(call, id)}.${id}`
  }

  #tagOf(call: Call, id: string): string {
    const text = JSON.stringify([call.target.server, principalKeyOf(call.get(identity) ?? anonymous), id])
    return createHmac('sha256', this.#key).update(text).digest('base64url').slice(0, 22)
  }
}

const anonymous = { tenant: '', authenticated: false }
