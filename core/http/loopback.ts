// Which hosts are this machine itself: what goes to them crosses no network.
import { isIP } from 'node:net'

/** `hostname` as a WHATWG URL has it: numbers normalised, IPv6 in brackets. */
export function isLoopbackHost(hostname: string): boolean {
  if (hostname === 'localhost' || hostname === '[::1]') return true
  return isIP(hostname) === 4 && hostname.startsWith('127.')
}
