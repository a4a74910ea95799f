// The lists of one server, read to their last page.
import { isJsonObject } from '@svc/core/json'
import { listChanges } from '../mcp/change-notifications.js'
import type { Fields } from '../mcp/rpc-response.js'
import type { Reply } from './server-calls.js'
import { resultOf, ServerUnavailable } from './server-link.js'

export type ListKind = 'tools' | 'prompts' | 'resources' | 'resourceTemplates'

interface ListForm {
  readonly method: string
  /** The capability of servers that have such a list. */
  readonly capability: string
}

/** The kind is also the member of the result. */
export const listForms: Readonly<Record<ListKind, ListForm>> = {
  tools: { method: 'tools/list', capability: 'tools' },
  prompts: { method: 'prompts/list', capability: 'prompts' },
  resources: {
    method: 'resources/list',
    capability: 'resources',
  },
  resourceTemplates: {
    method: 'resources/templates/list',
    capability: 'resources',
  },
}

const kinds = Object.keys(listForms) as ListKind[]

export function listOfMethod(method: string): ListKind | undefined {
  return kinds.find((kind) => listForms[kind].method === method)
}

/** The lists that a notification says to have changed. */
export function listsChangedBy(notification: string): readonly ListKind[] {
  const change = listChanges.find(({ method }) => method === notification)
  return kinds.filter((kind) => listForms[kind].capability === change?.capability)
}

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

/** `member` of the result has the list; `ask` requests one page. Rejects with `ServerUnavailable`. */
export async function readList(
  server: string,
  member: string,
  ask: (params: Readonly<Record<string, string>>) => Promise<Reply>,
): Promise<ServerList> {
  const entries: Fields[] = []
  let ttlMs: number | undefined
  let cursor: unknown
  for (let page = 0; page < maxPages && entries.length < maxEntries; page++) {
    const reply = await ask(typeof cursor === 'string' ? { cursor } : {})
    const result = resultOf(reply)
    const listed = result?.[member]
    if (result === undefined || !Array.isArray(listed)) throw new ServerUnavailable(server, reply)
    for (const entry of listed) if (isJsonObject(entry)) entries.push(entry)
    const { ttlMs: given, nextCursor } = result
    if (typeof given === 'number') ttlMs = Math.min(given, ttlMs ?? given)
    cursor = nextCursor
    if (typeof cursor !== 'string') return { entries, ttlMs, isCut: false }
  }
  return { entries, ttlMs, isCut: true }
}
