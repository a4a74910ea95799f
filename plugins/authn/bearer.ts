// Reads the Authorization header.
import { unauthenticated } from './refusals.js'

/** RFC 6750 §2.1: the scheme in any case (RFC 9110 §11.1), spaces, and one `b64token`. */
const credentials = /^bearer +([A-Za-z0-9\-._~+/]+=*) *$/i

/**
 * The bearer token. Throws `Refusal` for everything else: another scheme, no token, or two headers in one value, which
 * `node:http` gives with `joinDuplicateHeaders`.
 */
export function bearerToken(authorization: string): string {
  const token = credentials.exec(authorization)?.[1]
  if (token !== undefined) return token
  const [, scheme = ''] = /^([!#$%&'*+\-.^_`|~0-9A-Za-z]+)(?: |$)/.exec(authorization) ?? []
  if (scheme !== '' && scheme.toLowerCase() !== 'bearer') {
    // The rest of the header may be a password, so the message names only the scheme, and only a short one.
    const name = scheme.length <= 20 ? `"${scheme}" ` : ''
    throw unauthenticated(`The Authorization scheme ${name}is not accepted; send "Bearer <token>".`)
  }
  throw unauthenticated('The Authorization header is malformed; send "Bearer <token>", once.')
}
