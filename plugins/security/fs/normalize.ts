// Splits a path into its root and its segments, with `.` and `..` resolved.

/** A path that cannot be normalized safely; the message is a predicate whose subject is the path. */
export class PathError extends Error {
  override readonly name = 'PathError'
}

export interface NormalizedPath {
  /** `/`, a drive such as `C:`, a Windows server such as `//host`, or a home such as `~` or `~ann`; empty if relative. */
  readonly root: string
  /** In Unicode NFC. */
  readonly segments: readonly string[]
}

const SLASHES = /[\\/]/

interface NormalizeOptions {
  /** Base of relative paths. */
  readonly base?: NormalizedPath | undefined
  /** Whether backslashes separate segments. */
  readonly isWindows: boolean
}

/**
 * Resolves `.` and `..` lexically, by the POSIX or Windows rules. Symbolic links are not followed.
 *
 * @throws {PathError}
 */
export function normalizePath(text: string, { base, isWindows }: NormalizeOptions): NormalizedPath {
  if (text.includes('\0')) throw new PathError('contains a NUL character')
  const { root, rest } = splitRoot(text, isWindows)
  const start = (root === '' ? base : undefined) ?? { root, segments: [] }
  const segments = [...start.segments]
  for (const segment of rest.normalize('NFC').split(isWindows ? SLASHES : '/')) {
    if (segment === '' || segment === '.') continue
    if (segment !== '..') {
      // Windows removes trailing dots and spaces, which can leave "..".
      if (/^[.\s]+$/.test(segment)) throw new PathError('has a segment of only dots and spaces')
      segments.push(segment)
    } else if (segments.pop() === undefined && !isOwnParent(start.root)) {
      throw new PathError('leaves its base directory')
    }
  }
  return { root: start.root, segments }
}

/** Whether `..` at this root stays there. */
function isOwnParent(root: string): boolean {
  return root !== '' && !root.startsWith('~')
}

function splitRoot(text: string, isWindows: boolean): { root: string; rest: string } {
  if (isWindows && isShare(text)) return splitShare(text)
  if (/^[A-Za-z]:/.test(text)) {
    if (!SLASHES.test(text[2] ?? '')) throw new PathError('is relative to the current directory of a drive')
    return { root: text.slice(0, 2).toUpperCase(), rest: text.slice(2) }
  }
  if (text.startsWith('/') || (isWindows && text.startsWith('\\'))) return { root: '/', rest: text }
  const first = text.split(SLASHES, 1)[0] ?? ''
  if (first.startsWith('~')) return { root: first.normalize('NFC'), rest: text.slice(first.length) }
  if (first.startsWith('$') || /^%[A-Za-z_]\w*%/.test(first)) throw new PathError('starts with a variable')
  return { root: '', rest: text }
}

/** Two slashes of which at least one is a backslash. POSIX reads `//` as one slash, and URL parsers as scheme-relative. */
function isShare(text: string): boolean {
  return SLASHES.test(text[0] ?? '') && SLASHES.test(text[1] ?? '') && !text.startsWith('//')
}

function splitShare(text: string): { root: string; rest: string } {
  const [, , server = '', ...rest] = text.split(SLASHES)
  if (server === '?' || server === '.') throw new PathError('names a device')
  if (server === '' || server === '..') throw new PathError('names no server')
  return { root: `//${server.toLowerCase()}`, rest: rest.join('/') }
}
