// The plans and patterns of the section that apply to a call: the coverage of `svc policy test`.
import type { CallRequest, SectionEntry } from '@svc/core'
import { compilePatternMap, type PatternMap } from '@svc/core/match'
import type { Entitlement } from './entitlement.js'
import type { Grant, PatternList } from './grant.js'

type Path = readonly (string | number)[]

function patternAt(path: Path, name: string): SectionEntry {
  return { kind: 'pattern', name, path }
}

export function entriesFor(entitlement: Entitlement, { readings, kind }: CallRequest): SectionEntry[] {
  return entitlement.grants.flatMap((grant) => {
    const own = grant.level === 'plan' ? planOf(grant) : []
    return kind === 'protocol' ? own : [...own, ...matchingIn(grant, readings)]
  })
}

function planOf({ path }: Grant): SectionEntry[] {
  const name = path.at(-1)
  return name === undefined ? [] : [{ kind: 'plan', name, path }]
}

function matchingIn({ path, allow, deny, perTool }: Grant, readings: readonly string[]): SectionEntry[] {
  const limits = (perTool?.lookup(readings) ?? []).flat()
  return [
    // Lists that allow compare names as they are written: the first of the two lists of each reading.
    ...matchingList([...path, 'allowlist'], allow, readings)
      .filter((_, i) => i % 2 === 0)
      .flat(),
    ...matchingList([...path, 'denylist'], deny, readings).flat(),
    ...limits.map(({ pattern }) => patternAt([...path, 'per_tool', pattern], pattern)),
  ]
}

/** Compiled on first use, as calls in a gateway do not need it. */
const compiled = new WeakMap<PatternList, PatternMap<number>>()

function matchingList(
  path: Path,
  list: PatternList | undefined,
  readings: readonly string[],
): SectionEntry[][] {
  if (list === undefined) return []
  let patterns = compiled.get(list)
  if (patterns === undefined) {
    patterns = compilePatternMap(Object.fromEntries(list.sources.map((source, index) => [source, index])))
    compiled.set(list, patterns)
  }
  return patterns
    .lookup(readings)
    .map((found) => found.map(({ pattern, value }) => patternAt([...path, value], pattern)))
}
