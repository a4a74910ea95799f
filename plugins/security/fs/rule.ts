// What is wrong with a string by the filesystem rule.
import { PATH_NAMED } from '../content/key-flags.js'
import { decodeAscii, headOf, trimmed } from '../content/text.js'
import type { Effort } from '../content/walk.js'
import { fileUrlPath, holdsFileUrl } from './file-url.js'
import { readingsOf } from './interpretations.js'
import { type NormalPath, normalPath, PathError } from './normalize.js'
import type { FsAllowlist } from './patterns.js'

/** In UTF-16 units: enough to tell a path's beginning by, encoded twice. */
const START = 2048

const MAX_DECODINGS = 2

export class FsRule {
  #allowlist: FsAllowlist

  constructor(allowlist: FsAllowlist) {
    this.#allowlist = allowlist
  }

  get sources(): readonly string[] {
    return this.#allowlist.sources
  }

  /** What the string would open that is not allowed, in words; undefined where nothing is wrong. */
  violation(text: string, marks: number, effort: Effort): string | undefined {
    try {
      const path = this.#pathIn(text, marks, effort)
      if (path === undefined) return undefined
      // What is read most is what an attacker means: it makes the clearer message.
      for (const reading of [...readingsOf(path, effort)].reverse()) {
        const wrong = this.#judge(reading, effort)
        if (wrong !== undefined) return wrong
      }
      return undefined
    } catch (thrown) {
      if (thrown instanceof PathError) return `${thrown.message}, so fs_allowlist cannot allow it`
      throw thrown
    }
  }

  /** The text of the path that is judged, if any. */
  #pathIn(text: string, marks: number, effort: Effort): string | undefined {
    const isNamed = (marks & PATH_NAMED) !== 0
    let start = trimmed(text, effort).slice(0, START)
    for (let decodings = 0; ; decodings++) {
      effort.steps += start.length
      if (holdsFileUrl(headOf(start, START, effort).text, isNamed)) {
        return fileUrlPath(text, decodings, effort)
      }
      if (looksLikePath(start)) return text
      const next = decodings < MAX_DECODINGS && start.includes('%') ? decodeAscii(start, effort) : start
      if (next === start) return isNamed ? text : undefined
      start = trimmed(next, effort)
    }
  }

  #judge(text: string, effort: Effort): string | undefined {
    const { base } = this.#allowlist
    effort.steps += text.length
    const asWindows = normalPath(text, { base, isWindows: true })
    if (!this.#allowlist.allows(asWindows)) return wouldOpen(asWindows)
    if (!text.includes('\\') || !text.includes('..') || /^[A-Za-z]:/.test(text)) return undefined
    // To POSIX a backslash is a letter, and what stands around it goes up from elsewhere.
    const asPosix = normalPath(text, { base, isWindows: false })
    return this.#allowlist.allows(asPosix) ? undefined : wouldOpen(asPosix)
  }
}

/** `/` but not `//`, `~`, `./`, `../`, a drive with a slash, or two backslashes; `..` alone is the directory above. */
function looksLikePath(start: string): boolean {
  const folded = start.slice(0, 8).normalize('NFKC')
  return /^(?:\/(?!\/)|~|\.{1,2}[\\/]|\.\.$|[A-Za-z]:[\\/]|\\\\)/.test(folded)
}

const MAX_SHOWN = 120

function wouldOpen({ root, segments }: NormalPath): string {
  const lead = root === '' || root === '/' ? root : `${root}/`
  const path = `${lead}${segments.join('/')}` || '.'
  const shown = path.length > MAX_SHOWN ? `${path.slice(0, MAX_SHOWN)}…` : path
  return `would open ${shown.replace(/\p{Cc}/gu, '\ufffd')}; fs_allowlist does not allow it`
}
