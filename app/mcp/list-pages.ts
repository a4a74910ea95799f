// Reads a list of a server page by page.
import { isJsonObject } from '@svc/core/json'
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

/** `member` of a result has the list; `ask` requests one page and returns its result. Rejects like `ask`. */
export async function readPages(
  member: string,
  ask: (params: Readonly<Record<string, string>>) => Promise<Fields>,
): Promise<ServerList> {
  const entries: Fields[] = []
  let ttlMs: number | undefined
  let cursor: unknown
  for (let page = 0; page < maxPages && entries.length < maxEntries; page++) {
    const {
      [member]: listed,
      ttlMs: given,
      nextCursor,
    } = await ask(typeof cursor === 'string' ? { cursor } : {})
    if (Array.isArray(listed)) entries.push(...listed.filter(isJsonObject))
    if (typeof given === 'number') ttlMs = Math.min(given, ttlMs ?? given)
    cursor = nextCursor
    if (typeof cursor !== 'string') return { entries, ttlMs, isCut: false }
  }
  return { entries, ttlMs, isCut: true }
}
