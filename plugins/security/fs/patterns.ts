// The policy's `fs_allowlist`, compiled once. `*` stands for any characters of one name, `**` for any number of names.
import { type Glob, globMatches, globOf } from '@svc/core/match'
import { type NormalPath, normalPath, PathError } from './normalize.js'

/** Why a pattern was refused; written for the policy's author. */
export class PathPatternError extends Error {
  override readonly name = 'PathPatternError'
}

interface PathPattern {
  readonly root: string
  /** The names between the `**`, at least one run; between two neighbours stands a `**`. */
  readonly runs: readonly (readonly Glob[])[]
}

/**
 * @param base where relative patterns begin, as relative paths do
 * @throws {PathPatternError}
 */
export function parsePathPattern(source: string, base: NormalPath | undefined): PathPattern {
  if (/[?[\]{}]/.test(source))
    throw new PathPatternError('the wildcards are * and **; write * for ?, [ and {')
  const names = source.split(/[\\/]/)
  if (names.includes('..')) throw new PathPatternError('write the path that ".." leads to')
  if (names.some((name) => name.includes('**') && name !== '**'))
    throw new PathPatternError('** stands for whole names: /srv/**/x')
  const { root, segments } = read(source, base)
  if (root.includes('*')) throw new PathPatternError('a home or server is written without a star')
  const runs: Glob[][] = [[]]
  for (const segment of segments) {
    if (segment === '**') runs.push([])
    else runs[runs.length - 1]?.push(globOf(segment))
  }
  return { root, runs }
}

/**
 * The directory in which relative paths begin.
 *
 * @throws {PathPatternError}
 */
export function parseRoot(source: string): NormalPath {
  const path = read(source, undefined)
  if (path.root === '' || path.root.startsWith('~') || source.includes('*'))
    throw new PathPatternError('an absolute path without a star is wanted')
  return path
}

function read(source: string, base: NormalPath | undefined): NormalPath {
  try {
    // The policy's author has no URL in mind: two slashes of either kind begin a Windows share.
    return normalPath(source.replace(/^\/\//, '\\\\'), { base, isWindows: true })
  } catch (thrown) {
    if (thrown instanceof PathError) throw new PathPatternError(`this path ${thrown.message}`)
    throw thrown
  }
}

export class FsAllowlist {
  #byRoot = new Map<string, PathPattern[]>()

  /** @throws {PathPatternError} for the first pattern that is wrong */
  constructor(
    readonly sources: readonly string[],
    readonly base: NormalPath | undefined,
  ) {
    for (const source of sources) {
      const pattern = parsePathPattern(source, base)
      this.#byRoot.set(pattern.root, [...(this.#byRoot.get(pattern.root) ?? []), pattern])
    }
  }

  allows({ root, segments }: NormalPath): boolean {
    return this.#byRoot.get(root)?.some((pattern) => matches(pattern.runs, segments)) ?? false
  }
}

/**
 * The first run stands at the path's beginning, the last at its end, each other at the first place after the one
 * before: where any places fit, these do, so nothing is tried twice.
 */
function matches(runs: PathPattern['runs'], names: readonly string[]): boolean {
  const first = runs[0] ?? []
  if (runs.length === 1) return first.length === names.length && standsAt(first, names, 0)
  const last = runs[runs.length - 1] ?? []
  const end = names.length - last.length
  let from = first.length
  if (from > end || !standsAt(first, names, 0) || !standsAt(last, names, end)) return false
  for (const run of runs.slice(1, -1)) {
    while (from + run.length <= end && !standsAt(run, names, from)) from++
    from += run.length
    if (from > end) return false
  }
  return true
}

function standsAt(run: readonly Glob[], names: readonly string[], at: number): boolean {
  return run.every((glob, i) => globMatches(glob, names[at + i] ?? ''))
}
