// The rule by which a key or a tool is "named like" a word.

import { normalized } from './normalize.js'

const BOUNDARY =
  /[^\p{L}\p{M}\p{N}]+|(?<=[\p{Ll}\p{M}])(?=\p{Lu})|(?<=\p{Lu})(?=\p{Lu}\p{Ll})|(?<=\p{N})(?=\p{L})|(?<=[\p{L}\p{M}])(?=\p{N})/u

/**
 * The lower-case words of a name, split at punctuation, between lower and upper case, before the last capital of a run
 * that is followed by a lower-case letter, and between letters and digits: `HTTPServer_url2` has http, server, url, 2.
 */
export function wordsOf(name: string): string[] {
  return normalized(name, 'NFC')
    .split(BOUNDARY)
    .filter((word) => word !== '')
    .map((word) => word.toLowerCase())
}
