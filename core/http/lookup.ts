// A lookup of host names for connections that must not end in a private network.
import { lookup } from 'node:dns'
import type { LookupFunction } from 'node:net'
import { classifyHost } from './host.js'

/**
 * Like `dns.lookup`, but fails with the code `EPRIVATE` if a name has an address that is not public. A connection to
 * an address in place of a name does no lookup.
 */
export const publicLookup: LookupFunction = (hostname, options, callback) => {
  lookup(hostname, { ...options, all: true }, (error, addresses) => {
    if (error !== null) return callback(error, [])
    const first = addresses[0]
    if (first === undefined || addresses.some(({ address }) => classifyHost(address) !== 'public')) {
      return callback(Object.assign(new Error(`${hostname} has a private address`), { code: 'EPRIVATE' }), [])
    }
    return options.all === true ? callback(null, addresses) : callback(null, first.address, first.family)
  })
}
