// Requests that are refused before they are routed: the HTTP parser accepts them, but another server on the way may
// read them differently.
import type { IncomingMessage } from 'node:http'

/** A name or an address, and a port (RFC 9110 §7.2). Two Host headers arrive joined by a comma. */
const hostForm = /^(?:[0-9a-z._~-]+|\[[0-9a-f:.]+\])(?::\d{1,5})?$/i
/** The characters of an id in a path, so that nothing else reaches a store. */
export const idForm = /^[A-Za-z0-9_-]{1,128}$/
const absoluteForm = /^https?:\/\/([^/?]*)(.*)$/i

/** The Host names that a server accepts. */
export interface HostRule {
  /** Whether a Host header names this server; if absent, every host is allowed. */
  readonly allowsHost?: (host: string) => boolean
  /** The policy key that lists the names; `server.allowedHosts` by default. */
  readonly hostsKey?: string
}

/** The reason to refuse the request, for the caller; undefined if it is valid and for this server. */
export function refuseRequest(
  message: IncomingMessage,
  maxHeaders: number,
  { allowsHost, hostsKey = 'server.allowedHosts' }: HostRule,
): string | undefined {
  const { headers, httpVersion, url = '' } = message
  if (message.rawHeaders.length > 2 * maxHeaders) return `The request has more than ${maxHeaders} headers.`
  const { host, expect } = headers
  if (host === undefined) {
    if (httpVersion !== '1.0') return 'The request has no Host header.'
  } else if (!hostForm.test(host)) return 'host: expected one name or address, and a port.'
  if (expect !== undefined && expect.toLowerCase() !== '100-continue') {
    return 'expect: only 100-continue is understood.'
  }
  const coding = headers['transfer-encoding']
  // RFC 9112 §6.1: no other coding is supported, and HTTP/1.0 has none.
  if (coding !== undefined && (httpVersion !== '1.1' || coding.toLowerCase() !== 'chunked'))
    return 'transfer-encoding: only chunked is understood, once, in HTTP/1.1.'
  if (url.includes('#')) return 'The request target has a fragment.'
  const error = url.startsWith('/') ? undefined : targetError(message)
  if (error !== undefined) return error
  if (host === undefined || allowsHost === undefined || allowsHost(host)) return undefined
  return `host: the gateway does not respond to ${host.slice(0, 255)}; the names it responds to are listed in ${hostsKey}.`
}

/** The mistake in a target that is no path. */
function targetError(message: IncomingMessage): string | undefined {
  const { url = '' } = message
  if (url === '*' && message.method === 'OPTIONS') return undefined
  const [, authority] = absoluteForm.exec(url) ?? []
  if (authority === undefined) return 'The request target is neither a path nor an http URL.'
  // Host and target must match, or router and policy could see different requests.
  if (authority.toLowerCase() !== message.headers.host?.toLowerCase()) {
    return 'The request target and the Host header name different hosts.'
  }
  return undefined
}

/** Path and query of a valid request, even if its target has the absolute form (RFC 9112 §3.2.2). */
export function requestPath({ url = '/' }: IncomingMessage): string {
  if (url.startsWith('/')) return url
  const [, , path = url] = absoluteForm.exec(url) ?? []
  return path === '' || path.startsWith('?') ? `/${path}` : path
}
