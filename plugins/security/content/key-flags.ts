// Which strings are judged for the name they stand under (decisions.md §3, "Patterns").
import { wordsOf } from '@svc/core/match'

/** Judged as a URL, with or without a scheme. */
export const URL_NAMED = 1
/** Named like `host`: what stands there is no path, whatever it looks like. */
export const HOST_NAMED = 2
/** Judged as a path. */
export const PATH_NAMED = 4

const marks: ReadonlyMap<string, number> = new Map([
  ...['url', 'uri', 'href', 'endpoint', 'webhook', 'callback'].map((word) => [word, URL_NAMED] as const),
  ['host', URL_NAMED | HOST_NAMED],
  ...[
    'path',
    'file',
    'filename',
    'dir',
    'directory',
    'folder',
    'cwd',
    'src',
    'dest',
    'source',
    'destination',
  ].map((word) => [word, PATH_NAMED] as const),
])

/** In UTF-16 units. Normalising costs more than linear time, and a longer key is no name of a parameter. */
const MAX_KEY = 256
const MAX_KNOWN = 2048

const known = new Map<string, number>()

/** What a key is named like: a sum of the marks above. A key too long to be read is named like everything. */
export function marksOf(key: string): number {
  if (key.length > MAX_KEY) return URL_NAMED | HOST_NAMED | PATH_NAMED
  const kept = known.get(key)
  if (kept !== undefined) return kept
  const found = wordsOf(key).reduce((sum, word) => sum | (marks.get(word) ?? 0), 0)
  if (known.size >= MAX_KNOWN) known.clear()
  known.set(key, found)
  return found
}
