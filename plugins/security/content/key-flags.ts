// Finds the rules that apply to a string because of the names of the keys above it.
import { wordsOf } from '@svc/core/match'

/** The value is checked as a URL, with or without a scheme. */
export const URL_KEY = 1
/** The value is a host even if it looks like a path. */
export const HOST_KEY = 2
/** The value is checked as a path. */
export const PATH_KEY = 4

const flagsOfWord: ReadonlyMap<string, number> = new Map([
  ...['url', 'uri', 'href', 'endpoint', 'webhook', 'callback'].map((word) => [word, URL_KEY] as const),
  ['host', URL_KEY | HOST_KEY],
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
  ].map((word) => [word, PATH_KEY] as const),
])

/** In UTF-16 units: splitting a key into words normalizes it, which costs more than linear time. */
const MAX_KEY = 256
const MAX_CACHED = 2048
const cache = new Map<string, number>()

/** The flags of all words in a key, or-ed. A key that is too long to split has all flags. */
export function keyFlags(key: string): number {
  if (key.length > MAX_KEY) return URL_KEY | HOST_KEY | PATH_KEY
  const cached = cache.get(key)
  if (cached !== undefined) return cached
  const flags = wordsOf(key).reduce((sum, word) => sum | (flagsOfWord.get(word) ?? 0), 0)
  if (cache.size >= MAX_CACHED) cache.clear()
  cache.set(key, flags)
  return flags
}
