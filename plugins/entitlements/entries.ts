// The plans and patterns of the section that apply to a call: the coverage of `svc policy test`, and what decided a record.
import type { CallRequest, Identity, SectionEntry } from '@svc/core'
import { compilePatternMap, type PatternMap } from '@svc/core/match'
import { entitlementsSchema } from './config.js'
import type { Entitlement } from './entitlement.js'
import type { Grant, PatternList } from './grant.js'
import { Tenants } from './tenants.js'

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

/** A decision of the section, as the record of its call states it. */
interface RecordedDecision {
  readonly tenant: string
  readonly caller: Omit<Identity, 'tenant' | 'authenticated'>
  readonly reference: string
  /** The reason of the finding that refused the call. */
  readonly rule?: string | undefined
  readonly pattern?: string | undefined
  /** The key of the counter that refused the call. */
  readonly limit?: string | undefined
}

/** The paths of the entries that made the decision, the most exact first; none if `section` is not a valid one. */
export function decidingEntries(section: unknown, decision: RecordedDecision): readonly Path[] {
  const config = entitlementsSchema.safeParse(section)
  if (!config.success) return []
  const { tenant, caller, reference, rule, pattern, limit } = decision
  const { grants, allowing } = new Tenants(config.data).entitlementOf(tenant, caller, null)
  if (pattern !== undefined)
    return rule === 'tool_in_denylist'
      ? grants.flatMap(({ path, deny }) => patternIn([...path, 'denylist'], deny, pattern))
      : allowing.flatMap(({ path, allow }) => patternIn([...path, 'allowlist'], allow, pattern))
  if (limit !== undefined) return limitEntries(grants, limit, reference)
  return rule === 'tool_not_in_allowlist' ? allowing.map(({ path }) => [...path, 'allowlist']) : []
}

function patternIn(path: Path, list: PatternList | undefined, pattern: string): Path[] {
  const index = list?.sources.indexOf(pattern) ?? -1
  return index < 0 ? [] : [[...path, index]]
}

/** A counter of a principal has its suffix; the limits of a plan are those of tools without one of their own. */
function limitEntries(grants: readonly Grant[], limit: string, reference: string): Path[] {
  const isOwn = ({ keySuffix }: Grant) =>
    keySuffix === '' ? !limit.includes('#') : limit.endsWith(keySuffix)
  const found = grants.filter(isOwn).flatMap(({ path, perTool }) => {
    const [entry] = perTool?.lookup([reference]).flat() ?? []
    return entry === undefined ? [] : [[...path, 'per_tool', entry.pattern]]
  })
  return [...found, ...grants.filter(({ level }) => level === 'plan').map(({ path }) => path)]
}
