// Checks strings against the filesystem allowlist.
import { EscapeError } from '@svc/core/match'
import { PATH_KEY } from '../content/key-flags.js'
import type { ScanCounter } from '../content/strings.js'
import { decodeAscii, prefixOf, schemeAt, trimmed } from '../content/text.js'
import { fileUrlPath, interpretationsOf, startsWithFileUrl } from './interpretations.js'
import { type NormalizedPath, normalizePath, PathError } from './normalize.js'
import type { FsAllowlist } from './patterns.js'

/** In UTF-16 units: enough to recognize the start of a path that is encoded twice. */
const MAX_PREFIX = 2048

const MAX_DECODINGS = 2

export class FsRule {
  #allowlist: FsAllowlist

  constructor(allowlist: FsAllowlist) {
    this.#allowlist = allowlist
  }

  get sources(): readonly string[] {
    return this.#allowlist.sources
  }

  /** Describes the refused path; undefined if the string is allowed. */
  violation(text: string, flags: number, counter: ScanCounter): string | undefined {
    try {
      const path = this.#pathIn(text, flags, counter)
      if (path === undefined) return undefined
      // The most decoded interpretation is what an attacker aims at, so its message is the clearest.
      for (const interpretation of [...interpretationsOf(path, counter)].reverse()) {
        const violation = this.#check(interpretation, counter)
        if (violation !== undefined) return violation
      }
      return undefined
    } catch (error) {
      if (error instanceof PathError || error instanceof EscapeError)
        return `${error.message}, so fs_allowlist cannot allow it`
      throw error
    }
  }

  /** The path in a string; undefined if the string is not treated as a path. */
  #pathIn(text: string, flags: number, counter: ScanCounter): string | undefined {
    const isPathKey = (flags & PATH_KEY) !== 0
    let prefix = trimmed(text, counter).slice(0, MAX_PREFIX)
    for (let decodings = 0; ; decodings++) {
      counter.characters += prefix.length
      if (startsWithFileUrl(prefixOf(prefix, MAX_PREFIX, counter).text, isPathKey)) {
        return fileUrlPath(text, decodings, counter)
      }
      if (startsLikePath(prefix)) return text
      if (isPathKey && startsWithUrl(prefix)) throw new PathError('is a URL')
      const next = decodings < MAX_DECODINGS && prefix.includes('%') ? decodeAscii(prefix, counter) : prefix
      if (next === prefix) return isPathKey ? text : undefined
      prefix = trimmed(next, counter)
    }
  }

  #check(text: string, counter: ScanCounter): string | undefined {
    const { base } = this.#allowlist
    counter.characters += text.length
    const windowsPath = normalizePath(text, { base, isWindows: true })
    if (!this.#allowlist.allows(windowsPath)) return describeViolation(windowsPath)
    if (!text.includes('\\') || !text.includes('..') || /^[A-Za-z]:/.test(text)) return undefined
    // POSIX treats a backslash as a letter, so `..` may resolve to another directory there.
    const posixPath = normalizePath(text, { base, isWindows: false })
    return this.#allowlist.allows(posixPath) ? undefined : describeViolation(posixPath)
  }
}

/** `/` but not `//`, `~`, `./`, `../`, a drive with a slash, two backslashes, or `..` alone. */
function startsLikePath(text: string): boolean {
  const folded = text.slice(0, 8).normalize('NFKC')
  return /^(?:\/(?!\/)|~|\.{1,2}[\\/]|\.\.$|[A-Za-z]:[\\/]|\\\\)/.test(folded)
}

/**
 * Programs read `php://filter/…`, `zip://` and `vscode-remote://` by a handler of their own. The egress rule judges URLs of the
 * web.
 */
function startsWithUrl(text: string): boolean {
  const scheme = schemeAt(text, 0)
  return scheme !== undefined && !WEB.has(scheme) && text.startsWith('://', scheme.length)
}

const WEB: ReadonlySet<string> = new Set(['http', 'https'])

const MAX_SHOWN = 120

function describeViolation({ root, segments }: NormalizedPath): string {
  const prefix = root === '' || root === '/' ? root : `${root}/`
  const path = `${prefix}${segments.join('/')}` || '.'
  const shown = path.length > MAX_SHOWN ? `${path.slice(0, MAX_SHOWN)}…` : path
  return `would open ${shown.replace(/\p{Cc}/gu, '\ufffd')}; fs_allowlist does not allow it`
}
