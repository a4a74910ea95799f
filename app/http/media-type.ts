// Media types of bodies.

export const JSON_TYPE = 'application/json'
export const EVENT_STREAM_TYPE = 'text/event-stream'

/** A media type without its parameters, in lower case (RFC 9110 §8.3.1); empty if there is none. */
export function mediaType(header: string | string[] | undefined): string {
  if (typeof header !== 'string') return ''
  if (header === JSON_TYPE) return header
  return (header.split(';', 1)[0] ?? '').trim().toLowerCase()
}

/** The types under which servers send JSON-RPC: some declare another one, or none. */
const messageTypes: ReadonlySet<string> = new Set([JSON_TYPE, 'application/json-rpc', 'text/plain', ''])

/** Whether a body of this type may be a JSON-RPC message. */
export function isMessageType(header: string | string[] | undefined): boolean {
  return messageTypes.has(mediaType(header))
}
