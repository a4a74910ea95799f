// Reads lists of servers page by page, up to the limits of what the gateway keeps, and removes what a caller may not use.
import type { RequestKind } from '@svc/core'
import { exactDouble, isJsonObject, stringifyJson } from '@svc/core/json'
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
    const ttl = exactDouble(given)
    if (ttl !== undefined) ttlMs = Math.min(ttl, ttlMs ?? ttl)
    for (const entry of Array.isArray(listed) ? listed : []) {
      if (!isJsonObject(entry)) continue
      characters += stringifyJson(entry).length
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

/** The entries of a list of a server; empty if it has no such list. Rejects as `send` does. */
export async function listEntries(
  kind: ListKind,
  send: SendOwn<ServerReply>,
  session: ServerSession,
  client: ClientFacts,
): Promise<readonly Fields[]> {
  const { method } = listForms[kind]
  const { entries } = await readPages(kind, async (params) => {
    const { message, headers } = ownRequest(session, client, { id: 'svc-list', method, params })
    return resultIn(await send(message, headers)) ?? {}
  })
  return entries
}

/** The names of all tools of a server; empty if it has no tools. Rejects as `send` does. */
export async function toolNames(
  send: SendOwn<ServerReply>,
  session: ServerSession,
  client: ClientFacts,
): Promise<string[]> {
  const entries = await listEntries('tools', send, session, client)
  return entries.flatMap(({ name }) => (typeof name === 'string' ? [name] : []))
}

// Removes from lists what the caller may not use. A list is recognised by its shape, because a response that is replayed on
// a GET stream does not name the method of its request.

export type ListKind = 'tools' | 'prompts' | 'resources' | 'resourceTemplates'

interface ListForm {
  readonly method: string
  /** The capability of servers that have such a list. */
  readonly capability: string
  /** The kind by which an entry is judged. */
  readonly kind: RequestKind
  /** The member of an entry that has its name. */
  readonly nameMember: string
}

/**
 * Lists by kind, which is also the member of the result. A resource template is judged by its own text, as if it were the
 * URI of a resource: a pattern as wide as the template keeps it, a narrower one does not. Each read is judged by its own URI.
 */
export const listForms: Readonly<Record<ListKind, ListForm>> = {
  tools: { method: 'tools/list', capability: 'tools', kind: 'tool', nameMember: 'name' },
  prompts: { method: 'prompts/list', capability: 'prompts', kind: 'prompt', nameMember: 'name' },
  resources: { method: 'resources/list', capability: 'resources', kind: 'resource', nameMember: 'uri' },
  resourceTemplates: {
    method: 'resources/templates/list',
    capability: 'resources',
    kind: 'resource',
    nameMember: 'uriTemplate',
  },
}

const lists = Object.entries(listForms)

export type MayUse = (kind: RequestKind, name: string) => boolean

export function isListing(result: unknown): result is Fields {
  return isJsonObject(result) && lists.some(([member]) => Array.isArray(result[member]))
}

/** Returns the same object if nothing is removed. An entry without a name cannot be judged and is removed. */
export function filterListing(result: Fields, mayUse: MayUse): Fields {
  let filtered = result
  for (const [member, { kind, nameMember }] of lists) {
    const entries: unknown = result[member]
    if (!Array.isArray(entries)) continue
    const kept = entries.filter((entry: unknown) => {
      const named = isJsonObject(entry) ? entry[nameMember] : undefined
      return typeof named === 'string' && mayUse(kind, named)
    })
    if (kept.length !== entries.length) filtered = { ...filtered, [member]: kept }
  }
  return filtered
}

/**
 * A filtered list must not reach another caller from a cache, and must not outlive the policy (2026-07-28, "Caching").
 * Returns the same object if its members say so already.
 */
export function forOneCaller(result: Fields, isFiltered: boolean): Fields {
  if (isFiltered) return { ...result, ttlMs: 0, cacheScope: 'private' }
  return result['cacheScope'] === 'public' ? { ...result, cacheScope: 'private' } : result
}
