// Pages of a list that was merged from several servers.
import { parseJsonObject } from '@svc/core/json'
import { invalidParams } from '../mcp/mcp-refusal.js'

/** Entries of a page, so many that a client which reads only one page gets the whole of a usual list. */
const pageSize = 1_000

/**
 * The page after `cursor`, and the cursor of the next one. `nameOf` names an entry; if the last entry of the previous page
 * is no longer listed, its position counts. Throws `McpRefusal` for an invalid cursor.
 */
export function pageOf<T>(
  entries: readonly T[],
  cursor: unknown,
  nameOf: (entry: T) => unknown,
  size = pageSize,
): { readonly page: readonly T[]; readonly nextCursor?: string } {
  const start = cursor === undefined ? 0 : startAfter(entries, cursor, nameOf)
  const page = entries.slice(start, start + size)
  const last = page.at(-1)
  const end = start + page.length
  if (last === undefined || end >= entries.length) return { page }
  const next = JSON.stringify({ after: nameOf(last), at: end })
  return { page, nextCursor: Buffer.from(next).toString('base64url') }
}

function startAfter<T>(entries: readonly T[], cursor: unknown, nameOf: (entry: T) => unknown): number {
  const given =
    typeof cursor === 'string' ? parseJsonObject(Buffer.from(cursor, 'base64url').toString()) : undefined
  const { after, at } = given ?? {}
  if (typeof after !== 'string' || typeof at !== 'number' || !Number.isInteger(at) || at < 0) {
    throw invalidParams('cursor: not one of this list.')
  }
  const index = entries.findIndex((entry) => nameOf(entry) === after)
  return index < 0 ? at : index + 1
}
