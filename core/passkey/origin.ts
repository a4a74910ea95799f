// The origin of the pages on which a passkey is used.
import { isIP } from 'node:net'

/** The relying party of the origin of a page. @throws {Error} for an IP address, which cannot be one, and for other text */
export function relyingPartyOf(origin: string): string {
  const { hostname, origin: own } = new URL(origin)
  if (own !== origin || !origin.startsWith('http')) throw new Error('not the origin of a page')
  if (isIP(hostname.replace(/^\[(.*)\]$/, '$1')) === 0) return hostname
  throw new Error('an IP address cannot be the relying party of a passkey; use a name, such as localhost')
}
