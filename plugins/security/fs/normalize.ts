// A path as it would be opened: its root, and its segments without `.` and `..`.

/** A path that no reading of it makes safe; the message says why, as a clause whose subject is the path. */
export class PathError extends Error {
  override readonly name = 'PathError'
}

export interface NormalPath {
  /** `/`, a drive such as `C:`, a Windows server such as `//host`, a home such as `~` or `~ann`; empty for none. */
  readonly root: string
  /** In Unicode NFC. */
  readonly segments: readonly string[]
}

const SLASHES = /[\\/]/

export interface Reading {
  /** Where relative paths begin. */
  readonly base?: NormalPath | undefined
  /** Whether backslashes are what Windows takes them for. */
  readonly isWindows: boolean
}

/**
 * Resolves `.` and `..` as text, as POSIX (`isWindows` false) or Windows would split it. Links are not followed.
 *
 * @throws {PathError}
 */
export function normalPath(text: string, { base, isWindows }: Reading): NormalPath {
  if (text.includes('\0')) throw new PathError('holds a NUL')
  const { root, rest } = rootOf(text, isWindows)
  const start = root === '' ? base : undefined
  const segments = start === undefined ? [] : [...start.segments]
  const from = start?.root ?? root
  for (const segment of rest.normalize('NFC').split(isWindows ? SLASHES : '/')) {
    if (segment === '' || segment === '.') continue
    if (segment !== '..') {
      // Windows drops dots and spaces at a name's end, and what is left may be "..".
      if (/^[.\s]+$/.test(segment)) throw new PathError('has a name of nothing but dots and spaces')
      segments.push(segment)
    } else if (segments.pop() === undefined && !isTop(from)) {
      throw new PathError('leaves the directory that it begins in')
    }
  }
  return { root: from, segments }
}

/** The directory above such a root is that root. */
function isTop(root: string): boolean {
  return root !== '' && !root.startsWith('~')
}

function rootOf(text: string, isWindows: boolean): { root: string; rest: string } {
  if (isWindows && isShare(text)) return share(text)
  if (/^[A-Za-z]:/.test(text)) {
    if (!SLASHES.test(text[2] ?? '')) throw new PathError('is relative to the current directory of a drive')
    return { root: text.slice(0, 2).toUpperCase(), rest: text.slice(2) }
  }
  if (text.startsWith('/') || (isWindows && text.startsWith('\\'))) return { root: '/', rest: text }
  const first = text.split(SLASHES, 1)[0] ?? ''
  if (first.startsWith('~')) return { root: first.normalize('NFC'), rest: text.slice(first.length) }
  if (first.startsWith('$') || /^%[A-Za-z_]\w*%/.test(first)) throw new PathError('begins with a variable')
  return { root: '', rest: text }
}

/** Two slashes of which one is a backslash; `//` is one slash to POSIX, and scheme-relative to a URL's reader. */
function isShare(text: string): boolean {
  return SLASHES.test(text[0] ?? '') && SLASHES.test(text[1] ?? '') && !text.startsWith('//')
}

function share(text: string): { root: string; rest: string } {
  const [, , server = '', ...rest] = text.split(SLASHES)
  if (server === '?' || server === '.') throw new PathError('names a device')
  if (server === '' || server === '..') throw new PathError('names no server')
  return { root: `//${server.toLowerCase()}`, rest: rest.join('/') }
}
