// Ids of events: a client resumes after the last one it got, so each id names the server of the event.
import { parseJsonObject } from '@svc/core/json'

const idLine = /^id:[ ]?(.*)$/m

/** The event with the id for the client. */
export function withClientEventId(server: string, bytes: Uint8Array): Uint8Array {
  const event = Buffer.from(bytes)
  if (!event.includes('id:')) return bytes
  const text = event.toString()
  const [line, id] = idLine.exec(text) ?? []
  if (line === undefined || id === undefined || id.trim() === '') return bytes
  return Buffer.from(text.replace(idLine, () => `id: ${clientEventId(server, id.trim())}`))
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
