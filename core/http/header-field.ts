// Rules for header fields in a policy, and parsers of Authorization and Retry-After.

/** Headers of the connection and the body, in lower case. */
export const connectionFields: ReadonlySet<string> = new Set([
  'accept',
  'accept-encoding',
  'connection',
  'content-encoding',
  'content-length',
  'content-type',
  'expect',
  'host',
  'keep-alive',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
])

/** RFC 9110 §5.5 without obs-text, which servers interpret differently. */
export const fieldValue = /^[\x21-\x7e](?:[\x20-\x7e\t]*[\x21-\x7e])?$/

/** RFC 6750 §2.1: the scheme in any case (RFC 9110 §11.1), spaces, and one `b64token`. */
const bearerForm = /^bearer +([A-Za-z0-9\-._~+/]+=*) *$/i

/** The bearer token in an Authorization header; undefined if it has none, or more than one. */
export function bearerTokenIn(authorization: string | undefined): string | undefined {
  return bearerForm.exec(authorization ?? '')?.[1]
}

/**
 * Milliseconds from `now` (milliseconds since the epoch); undefined if the header is missing or invalid
 * (RFC 9110 §10.2.3).
 */
export function retryAfterMs(value: string | string[] | undefined, now: number): number | undefined {
  if (typeof value !== 'string') return undefined
  const text = value.trim()
  if (/^\d{1,9}$/.test(text)) return Number(text) * 1000
  // Only HTTP dates: Date.parse accepts many other formats.
  const moment = /^[A-Z][a-z]{2,8},? .*\d{2}:\d{2}:\d{2}/.test(text) ? Date.parse(text) : Number.NaN
  return Number.isNaN(moment) ? undefined : Math.max(0, moment - now)
}
