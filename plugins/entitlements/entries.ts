// The plans and patterns of the section, and those that apply to a call: the coverage of `svc policy test`.
import type { CallRequest, SectionEntry } from '@svc/core'
import { compilePatternMap, type PatternMap } from '@svc/core/match'
import { type EntitlementsConfig, PRINCIPAL_SECTIONS, type PrincipalConfig } from './config.js'
import type { Entitlement, Grant, PatternList } from './entitlement.js'

type Path = readonly (string | number)[]
type Lists = Pick<PrincipalConfig, 'allowlist' | 'denylist' | 'per_tool'>

export function sectionEntries(config: EntitlementsConfig | 'open' | 'none'): SectionEntry[] {
  if (typeof config === 'string') return []
  const { plans, tenants, default_plan } = config
  return [
    ...Object.entries(plans).flatMap(([name, plan]) => {
      const path = ['entitlements', 'plans', name]
      // The allowlist of a plan counts for tenants without an entry alone.
      const { allowlist, ...rest } = plan
      const lists = name === default_plan && allowlist !== undefined ? { allowlist, ...rest } : rest
      return [{ kind: 'plan' as const, name, path }, ...patternsOf(path, lists)]
    }),
    ...Object.entries(tenants).flatMap(([name, tenant]) => {
      const path = ['entitlements', 'tenants', name]
      const principals = PRINCIPAL_SECTIONS.flatMap((kind) =>
        Object.entries(tenant[kind] ?? {}).flatMap(([id, lists]) => patternsOf([...path, kind, id], lists)),
      )
      return [...patternsOf(path, tenant), ...principals]
    }),
  ]
}

function patternsOf(path: Path, { allowlist = [], denylist = [], per_tool = {} }: Lists): SectionEntry[] {
  return [
    ...allowlist.map((pattern, index) => patternAt([...path, 'allowlist', index], pattern)),
    ...denylist.map((pattern, index) => patternAt([...path, 'denylist', index], pattern)),
    ...Object.keys(per_tool).map((pattern) => patternAt([...path, 'per_tool', pattern], pattern)),
  ]
}

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
