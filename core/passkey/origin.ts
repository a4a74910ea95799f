// The origin of the pages on which a passkey is used.
import { isIP } from 'node:net'

/** The relying party of an origin. @throws {Error} for an IP address, which cannot be one */
export function relyingPartyOf(origin: string): string {
  const { hostname } = new URL(origin)
  if (isIP(hostname.replace(/^\[(.*)\]$/, '$1')) === 0) return hostname
  throw new Error('an IP address cannot be the relying party of a passkey; use a name, such as localhost')
}
