// Loopback hosts: traffic to them does not cross a network.
import { isIP } from 'node:net'

/** `hostname` as a WHATWG URL has it: numbers normalised, IPv6 in brackets. */
export function isLoopbackHost(hostname: string): boolean {
  if (hostname === 'localhost' || hostname === '[::1]') return true
  return isIP(hostname) === 4 && hostname.startsWith('127.')
}
