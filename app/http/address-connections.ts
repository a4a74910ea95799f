// Counts open connections by client address, so that one client cannot hold all of them.
import { isIPv6 } from 'node:net'
import { Tally } from '@svc/core/store'

/** The part of a socket that is used. */
interface Connected {
  readonly remoteAddress?: string | undefined
  once(event: 'close', listener: () => void): unknown
}

export class AddressConnections {
  #max: number
  #isExempt: (address: string) => boolean
  #open = new Tally()

  /** Addresses for which `isExempt` are not counted. */
  constructor(max: number, isExempt: (address: string) => boolean) {
    this.#max = max
    this.#isExempt = isExempt
  }

  /** Counts the connection until it closes; false where its client has as many as it may have. */
  admit(socket: Connected): boolean {
    const { remoteAddress } = socket
    // A connection that has closed already has no address.
    if (remoteAddress === undefined || this.#isExempt(remoteAddress)) return true
    const client = clientOf(remoteAddress)
    if (this.#open.of(client) >= this.#max) return false
    this.#open.add(client)
    socket.once('close', () => this.#open.remove(client))
    return true
  }
}

/** An IPv4 address, also in its IPv6 form (RFC 4291 §2.5.5.2), or the /64 network that an IPv6 client chooses from. */
function clientOf(address: string): string {
  const [, mapped] = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(address) ?? []
  if (mapped !== undefined) return mapped
  if (!isIPv6(address)) return address
  const [head = '', tail] = address.replace(/%.*$/, '').split('::')
  const groups = head === '' ? [] : head.split(':')
  const last = tail === undefined || tail === '' ? [] : tail.split(':')
  const zeros = tail === undefined ? [] : new Array<string>(8 - groups.length - last.length).fill('0')
  return [...groups, ...zeros, ...last].slice(0, 4).join(':')
}
