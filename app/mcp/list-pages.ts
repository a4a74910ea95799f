// Reads a list of a server page by page, up to what the gateway keeps of one.
import { isJsonObject } from '@svc/core/json'
import {
  type ClientFacts,
  ownRequest,
  resultIn,
  type SendOwn,
  type ServerReply,
  type ServerSession,
} from './handshake.js'
import type { Fields } from './rpc-response.js'

export interface ServerList {
  readonly entries: readonly Fields[]
  /** For how long the server allows the list to be used again, in milliseconds; undefined where it does not say. */
  readonly ttlMs: number | undefined
  /** Whether the server has more than the gateway reads. */
  readonly isCut: boolean
}

export const noList: ServerList = { entries: [], ttlMs: undefined, isCut: false }

/** Of one server; a cursor that never ends must not keep the gateway reading. */
const maxPages = 100
const maxEntries = 10_000
/** Of one server, as JSON. */
const maxCharacters = 8_388_608
/** It is sent back with the next request. */
const maxCursor = 16_384

/** `member` of a result has the list; `ask` requests one page and returns its result. Rejects like `ask`. */
export async function readPages(
  member: string,
  ask: (params: Readonly<Record<string, string>>) => Promise<Fields>,
): Promise<ServerList> {
  const entries: Fields[] = []
  let characters = 0
  let ttlMs: number | undefined
  let cursor: string | undefined
  for (let page = 0; page < maxPages; page++) {
    const { [member]: listed, ttlMs: given, nextCursor } = await ask(cursor === undefined ? {} : { cursor })
    if (typeof given === 'number') ttlMs = Math.min(given, ttlMs ?? given)
    for (const entry of Array.isArray(listed) ? listed : []) {
      if (!isJsonObject(entry)) continue
      characters += JSON.stringify(entry).length
      if (entries.length === maxEntries || characters > maxCharacters) return { entries, ttlMs, isCut: true }
      entries.push(entry)
    }
    if (typeof nextCursor !== 'string') return { entries, ttlMs, isCut: false }
    if (nextCursor.length > maxCursor) break
    cursor = nextCursor
  }
  return { entries, ttlMs, isCut: true }
}

/** The names of all tools of a server, for the gateway itself; none where it does not list any. Rejects like `send`. */
export async function toolNames(
  send: SendOwn<ServerReply>,
  session: ServerSession,
  client: ClientFacts,
): Promise<string[]> {
  const { entries } = await readPages('tools', async (params) => {
    const { message, headers } = ownRequest(session, client, { id: 'svc-list', method: 'tools/list', params })
    return resultIn(await send(message, headers)) ?? {}
  })
  return entries.flatMap(({ name }) => (typeof name === 'string' ? [name] : []))
}
