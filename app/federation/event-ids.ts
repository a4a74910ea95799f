// Ids of events: a client resumes after the last one it got, so each id names the server of the event.
import { withIds } from '@svc/core/http'
import { parseJsonObject } from '@svc/core/json'

const COLON = 0x3a

/** The event with the id for the client. */
export function withClientEventId(server: string, bytes: Uint8Array): Uint8Array {
  // A comment has none, and need not be UTF-8.
  if (bytes[0] === COLON || !Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).includes('id'))
    return bytes
  return withIds(bytes, (id) => clientEventId(server, id))
}

function clientEventId(server: string, id: string): string {
  return Buffer.from(JSON.stringify({ server, id })).toString('base64url')
}

/** The server and its own id, from that of `Last-Event-ID`; undefined for other ids. */
export function serverEventId(given: unknown): { readonly server: string; readonly id: string } | undefined {
  if (typeof given !== 'string') return undefined
  const { server, id } = parseJsonObject(Buffer.from(given, 'base64url').toString()) ?? {}
  return typeof server === 'string' && typeof id === 'string' ? { server, id } : undefined
}
