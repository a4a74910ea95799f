// Media types of bodies.

export const JSON_TYPE = 'application/json'
export const EVENT_STREAM_TYPE = 'text/event-stream'

/** A media type without its parameters, in lower case (RFC 9110 §8.3.1); empty if there is none. */
export function mediaType(header: string | string[] | undefined): string {
  if (typeof header !== 'string') return ''
  if (header === JSON_TYPE) return header
  return (header.split(';', 1)[0] ?? '').trim().toLowerCase()
}
