// Reads a list of a server page by page, up to the limits of what the gateway keeps.
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
  /** Time for which the server allows the list to be cached, in milliseconds; undefined if the server names none. */
  readonly ttlMs: number | undefined
  /** Length of the entries as JSON. */
  readonly characters: number
  /** Whether the server has more than the gateway reads. */
  readonly isCut: boolean
  /** The version that its server names. */
  readonly version?: string
}

export const noList: ServerList = { entries: [], characters: 0, ttlMs: undefined, isCut: false }

/** Pages of one list: cursors that never end must not keep the gateway reading. */
const maxPages = 100
const maxEntries = 10_000
/** Characters of one list, as JSON. */
const maxCharacters = 8_388_608
/** Characters of a cursor, which the next request sends back. */
const maxCursor = 16_384

/** `member` of a result is the list; `ask` requests one page and returns its result. Rejects as `ask` does. */
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
      if (entries.length === maxEntries || characters > maxCharacters)
        return { entries, characters, ttlMs, isCut: true }
      entries.push(entry)
    }
    if (typeof nextCursor !== 'string') return { entries, characters, ttlMs, isCut: false }
    if (nextCursor.length > maxCursor) break
    cursor = nextCursor
  }
  return { entries, characters, ttlMs, isCut: true }
}

/** The names of all tools of a server; empty if it has no tools. Rejects as `send` does. */
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
