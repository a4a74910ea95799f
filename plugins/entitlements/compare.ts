// Compares two sections by what their callers may use: the languages of their patterns, not their text.
import { isDeepStrictEqual } from 'node:util'
import type { ChangeEffect, ComparedPolicies, PolicyChange } from '@svc/core'
import { findReference, type MatchedList, NotComparableError, nameOutside } from '@svc/core/match'
import {
  anyCaller,
  type ComparedCaller,
  comparedCallers,
  crossing,
  notCompared,
  type Section,
  spelledOtherwise,
  tenantEntries,
  uncomparedNames,
} from './compare-callers.js'
import { limitChanges } from './compare-limits.js'
import type { Entitlement } from './entitlement.js'
import { Tenants } from './tenants.js'

export function compareEntitlements(
  before: Section,
  after: Section,
  policies: ComparedPolicies,
): PolicyChange[] {
  const listed = [before, after].flatMap((section) =>
    typeof section === 'string' ? [] : Object.keys(section.tenants),
  )
  const tenants = [...new Set(listed)]
  const pair = crossing(tenants)
  const other = nameOutside(tenants)
  const changesOf = (tenant: string, title: string) =>
    new TenantComparison({ before, after, tenant, ...policies })
      .changes()
      .map((change) => ({ ...change, tenant: title }))
  return [
    ...(pair === undefined ? [] : [notCompared('tenants', pair)]),
    ...tenants.flatMap((tenant) => {
      const title = `tenant ${tenant}`
      const changes = changesOf(tenant, title)
      const spelling = spelledOtherwise(tenant)
      if (spelling === undefined) return changes
      // Such tenants are few, so that what is like a change of the tenant itself is not repeated.
      const known = new Set(changes.map(({ effect }) => directions[effect]))
      const more = changesOf(spelling, `${title}, spelled otherwise`).filter(
        ({ effect }) => !known.has(directions[effect]),
      )
      return [...changes, ...more]
    }),
    ...(other === undefined
      ? []
      : changesOf(other, tenants.length === 0 ? 'any tenant' : 'any other tenant')),
  ]
}

const directions: Readonly<Record<ChangeEffect, string>> = {
  gain: 'wider',
  wider: 'wider',
  loss: 'narrower',
  narrower: 'narrower',
  unknown: 'unknown',
  none: 'none',
}

/** The patterns of the one list that the other has not. */
function without({ patterns }: MatchedList, other: MatchedList): readonly string[] {
  const others = new Set(other.patterns)
  return patterns.filter((pattern) => !others.has(pattern))
}

interface Compared extends ComparedPolicies {
  readonly before: Section
  readonly after: Section
  readonly tenant: string
}

/** The tools that a caller may use under one section. */
interface Lists {
  readonly entitlement: Entitlement
  readonly allow: MatchedList
  readonly deny: MatchedList
}

type Direction = 'gain' | 'loss'

class TenantComparison {
  readonly #compared: Compared
  readonly #before: Tenants
  readonly #after: Tenants
  /** The differences reported for callers with fewer principals: they are not repeated. */
  readonly #reported = new Map<string, readonly ComparedCaller[]>()

  constructor(compared: Compared) {
    this.#compared = compared
    this.#before = new Tenants(compared.before)
    this.#after = new Tenants(compared.after)
  }

  changes(): PolicyChange[] {
    const { before, after, tenant } = this.#compared
    const [old, now] = [tenantEntries(before, tenant), tenantEntries(after, tenant)]
    const { one, two } = comparedCallers(old, now)
    return [
      ...uncomparedNames(old, now),
      ...[anyCaller, ...one, ...two].flatMap((caller) => this.#changesFor(caller)),
      ...limitChanges({ before, after, tenant }),
    ]
  }

  #changesFor(caller: ComparedCaller): PolicyChange[] {
    const [old, now] = [this.#listsOf(this.#before, caller), this.#listsOf(this.#after, caller)]
    if (isDeepStrictEqual([old.allow, old.deny], [now.allow, now.deny])) return []
    return [
      ...this.#differences(caller, 'gain', old, now),
      ...this.#differences(caller, 'loss', now, old),
      ...this.#protocol(caller, old.entitlement, now.entitlement),
    ]
  }

  #listsOf(tenants: Tenants, { identity, node }: ComparedCaller): Lists {
    const entitlement = tenants.entitlementOf(this.#compared.tenant, identity, node)
    const allow = entitlement.allowing.flatMap(({ allow }) => allow?.sources ?? [])
    const deny = entitlement.grants.flatMap(({ deny }) => deny?.sources ?? [])
    return {
      entitlement,
      allow: { patterns: [...new Set(allow)].sort() },
      deny: { patterns: [...new Set(deny)].sort(), isFolded: true },
    }
  }

  /**
   * A call that `more` allows and `fewer` does not is one that a pattern of `more` allows which `fewer` has not, or one
   * that a pattern of `fewer` denies which `more` has not. So each difference is one of such a pattern.
   */
  #differences(caller: ComparedCaller, direction: Direction, fewer: Lists, more: Lists): PolicyChange[] {
    const allowed = without(more.allow, fewer.allow)
    const undenied = without(fewer.deny, more.deny)
    return [
      ...allowed.flatMap((pattern) =>
        this.#difference(caller, direction, pattern, {
          inside: [{ patterns: [pattern] }],
          outside: [fewer.allow, more.deny],
        }),
      ),
      ...undenied.flatMap((pattern) => {
        const search = { inside: [{ patterns: [pattern], isFolded: true }, more.allow], outside: [more.deny] }
        const allowed = this.#difference(caller, direction, pattern, search)
        const isReported = this.#isReported(`use ${direction} ${pattern}`, caller)
        const isWhole = isReported && !this.#compared.denylistsMayPass
        return isWhole ? allowed : [...allowed, ...this.#demotion(caller, direction, pattern, more)]
      }),
    ]
  }

  /** A tool in a denylist and in no allowlist has another reason than a tool in no list, and so perhaps another effect. */
  #demotion(caller: ComparedCaller, direction: Direction, pattern: string, more: Lists): PolicyChange[] {
    const { reasonsDiffer, denylistsMayPass } = this.#compared
    if (!reasonsDiffer) return []
    const search = { inside: [{ patterns: [pattern], isFolded: true }], outside: [more.allow, more.deny] }
    const found = this.#difference(caller, direction, pattern, search, 'reason')
    const [effect, detail] =
      direction === 'gain'
        ? (['wider', `${pattern} is in no denylist, and in no allowlist`] as const)
        : ([
            denylistsMayPass ? 'wider' : 'narrower',
            `${pattern} is in a denylist, and was in no list`,
          ] as const)
    return found.map((change) => (change.effect === direction ? { ...change, effect, detail } : change))
  }

  #difference(
    caller: ComparedCaller,
    effect: Direction,
    pattern: string,
    search: Parameters<typeof findReference>[0],
    of: 'use' | 'reason' = 'use',
  ): PolicyChange[] {
    const key = `${of} ${effect} ${pattern}`
    if (this.#isReported(key, caller)) return []
    const subject = caller.names.length === 0 ? 'every caller' : caller.names.join(' with ')
    const report = (
      change: Pick<PolicyChange, 'detail' | 'example'> & { readonly effect: ChangeEffect },
    ): PolicyChange[] => {
      this.#reported.set(key, [...(this.#reported.get(key) ?? []), caller])
      return [{ subject, ...change }]
    }
    const verb = effect === 'gain' ? 'gains' : 'loses'
    try {
      const example = findReference(search)
      return example === undefined ? [] : report({ effect, detail: `${verb} ${pattern}`, example })
    } catch (error) {
      if (!(error instanceof NotComparableError)) throw error
      return report({ effect: 'unknown', detail: `${pattern} is not compared: ${error.message}` })
    }
  }

  /** Whether the difference was reported for this caller, or for one with fewer principals. */
  #isReported(key: string, caller: ComparedCaller): boolean {
    const known = this.#reported.get(key) ?? []
    return known.some(({ names }) => names.every((name) => caller.names.includes(name)))
  }

  /** Lists and other requests of the protocol, which are allowed to every caller that may use something on the server. */
  #protocol(caller: ComparedCaller, before: Entitlement, after: Entitlement): PolicyChange[] {
    return this.#compared.servers.flatMap((server): PolicyChange[] => {
      const reference = `mcp://${encodeURIComponent(server)}/`
      const isAllowed = (entitlement: Entitlement) =>
        entitlement.decisionOn({ reference, readings: [reference], kind: 'protocol' }).finding === undefined
      const [was, is] = [isAllowed(before), isAllowed(after)]
      if (was === is) return []
      const key = `protocol ${is} ${server}`
      if (this.#reported.has(key)) return []
      this.#reported.set(key, [caller])
      const subject = caller.names.length === 0 ? 'every caller' : caller.names.join(' with ')
      return [
        {
          effect: is ? 'gain' : 'loss',
          subject,
          detail: `${is ? 'gains' : 'loses'} the lists of server ${server}`,
        },
      ]
    })
  }
}
