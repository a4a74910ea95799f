// The smallest lists that allow the calls that were allowed. Denylists stay, as they only restrict.
import {
  type Call,
  type CallRequest,
  type ItemEdit,
  identity,
  type Narrowing,
  type NarrowingSettings,
  type PolicyEdit,
} from '@svc/core'
import { foldReference } from '@svc/core/match'
import { type EntitlementsConfig, PRINCIPAL_SECTIONS } from './config.js'
import type { Entitlement } from './entitlement.js'
import { entriesFor } from './entries.js'
import type { Grant } from './grant.js'
import { limitsFrom } from './observed-rates.js'
import { Tenants } from './tenants.js'

type Section = EntitlementsConfig | 'open' | 'none'
type Path = PolicyEdit['path']
type List = readonly [path: Path, patterns: readonly string[]]

const PREFIX = 'mcp://'

interface ToolUse {
  /** The references that were called: of each version. */
  readonly references: Set<string>
  isNarrowable: boolean
}

/** The tools that an entry of a list allowed, by names without versions. */
interface EntryUse {
  readonly tools: Map<string, ToolUse>
  /** Milliseconds since the epoch. */
  last: number
  isRecent: boolean
}

interface Arrivals {
  readonly tenant: string
  readonly name: string
  readonly times: number[]
  /** The limits in force, without those of principals. */
  readonly limits: Parameters<typeof limitsFrom>[1]
}

export class EntitlementsNarrowing implements Narrowing {
  readonly #section: Section
  readonly #tenants: Tenants
  readonly #tenant: string
  readonly #uses = new Map<string, EntryUse>()
  readonly #arrivals = new Map<string, Arrivals>()

  /** `tenant` is that of callers without an identity. */
  constructor(section: Section, tenant: string) {
    this.#section = section
    this.#tenants = new Tenants(section)
    this.#tenant = tenant
  }

  add(call: Call, isRecent: boolean): void {
    const { parsedRequest: request } = call
    if (request === undefined || request.kind === 'protocol' || this.#section === 'none') return
    const caller = call.get(identity) ?? { tenant: this.#tenant, roles: [] }
    const { tenant } = caller
    const entitlement = this.#tenants.entitlementOf(tenant, caller, call.agent.nodeId)
    if (isRecent) this.#addArrival(call, request, entitlement, tenant)
    // Open entitlements have no list; what each tenant used becomes one.
    if (this.#section === 'open') this.#use([tenant], request, call.receivedAt, isRecent)
    else
      for (const path of entriesThatAllow(entitlement, request)) {
        this.#use(path, request, call.receivedAt, isRecent)
      }
  }

  edits({ headroom }: NarrowingSettings): PolicyEdit[] {
    const section = this.#section
    if (section === 'none') return []
    if (section === 'open') return [{ path: ['entitlements'], value: this.#closed(headroom) }]
    return [
      ...listsOf(section).flatMap((list) => this.#listEdit(list)),
      ...this.#limitEdits(section, headroom),
    ]
  }

  #use(path: Path, { reference, readings, kind }: CallRequest, at: number, isRecent: boolean): void {
    const key = JSON.stringify(path)
    const use = this.#uses.get(key) ?? { tools: new Map<string, ToolUse>(), last: at, isRecent }
    this.#uses.set(key, use)
    use.last = Math.max(use.last, at)
    if (!isRecent) return
    use.isRecent = true
    // A caller may name any number of resources, and all readings of a name must be allowed.
    const isNarrowable = kind !== 'resource' && readings.length === 1
    const name = nameOf(reference)
    const tool = use.tools.get(name) ?? { references: new Set<string>(), isNarrowable }
    use.tools.set(name, tool)
    tool.references.add(reference)
    tool.isNarrowable &&= isNarrowable
  }

  #addArrival(call: Call, { reference, kind }: CallRequest, entitlement: Entitlement, tenant: string): void {
    if (kind !== 'tool') return
    // Limits compare folded names, and count all spellings together.
    const name = nameOf(foldReference(reference))
    // Any caller can name a tool so that its limit would not be compared, and nothing suggested.
    if (!hasOneSpelling(name)) return
    const key = JSON.stringify([tenant, name])
    let arrivals = this.#arrivals.get(key)
    if (arrivals === undefined) {
      const { parsedRequest } = call
      const all = parsedRequest === undefined ? [] : entitlement.decisionOn(parsedRequest).limits
      arrivals = { tenant, name, times: [], limits: all.filter((limit) => !limit.key.includes('#')) }
      this.#arrivals.set(key, arrivals)
    }
    arrivals.times.push(call.receivedAt)
  }

  #listEdit([path, patterns]: List): PolicyEdit[] {
    const items = new Map<number, ItemEdit>()
    for (const [index, pattern] of patterns.entries()) {
      const use = this.#uses.get(JSON.stringify([...path, index]))
      if (use?.isRecent === true) {
        const by = narrowed(pattern, use)
        if (by !== undefined) items.set(index, { by, comment: `was ${pattern}` })
      } else {
        const last =
          use === undefined ? 'never used' : `last used ${new Date(use.last).toISOString().slice(0, 10)}`
        items.set(index, { by: [], comment: `${pattern}: ${last}` })
      }
    }
    return items.size === 0 ? [] : [{ path, items }]
  }

  #limitEdits({ tenants }: EntitlementsConfig, headroom: number): PolicyEdit[] {
    return [...this.#arrivals.values()].flatMap(({ tenant, name, times, limits }): PolicyEdit[] => {
      const rules = tenants[tenant]
      const value =
        rules === undefined || rules.keep === true ? undefined : limitsFrom(times, limits, headroom)
      if (value === undefined) return []
      return [{ path: ['entitlements', 'tenants', tenant, 'per_tool', name], value }]
    })
  }

  /** The lists that replace `open`. */
  #closed(headroom: number): object {
    const tenants = [...this.#uses].flatMap(([key, { tools, isRecent }]) => {
      const [tenant] = JSON.parse(key) as [string]
      // As a key, a name with a star is a pattern, which other tenants could match.
      if (!isRecent || tenant.includes('*')) return []
      const own = [...this.#arrivals.values()].filter((one) => one.tenant === tenant)
      const perTool = own.map(({ name, times }) => [name, limitsFrom(times, [], headroom)] as const)
      const allowlist = [...tools].map(([name, { isNarrowable }]) =>
        isNarrowable ? name : `${name.slice(0, name.lastIndexOf('/'))}/*`,
      )
      return [
        [
          tenant,
          {
            plan: 'none',
            allowlist: [...new Set(allowlist)].sort(),
            ...(perTool.length === 0 ? {} : { per_tool: Object.fromEntries(perTool) }),
          },
        ] as const,
      ]
    })
    return { default_plan: 'none', plans: { none: {} }, tenants: Object.fromEntries(tenants) }
  }
}

/** `billing/refund`, `billing/prompts/ask`. */
function nameOf(reference: string): string {
  return asPattern(reference.slice(0, reference.lastIndexOf('@')))
}

/** A caller can name a tool with a star, which must not become one of a pattern. */
function asPattern(reference: string): string {
  return reference.slice(PREFIX.length).replaceAll('*', '%2A')
}

/** The lists that count, without those of what is kept. */
function listsOf({ default_plan, plans, tenants }: EntitlementsConfig): List[] {
  const plan = plans[default_plan]
  const ofPlan: List[] =
    plan?.allowlist === undefined || plan.keep === true
      ? []
      : [[['entitlements', 'plans', default_plan, 'allowlist'], plan.allowlist]]
  return [
    ...ofPlan,
    ...Object.entries(tenants).flatMap(([name, tenant]): List[] => {
      if (tenant.keep === true) return []
      const path = ['entitlements', 'tenants', name]
      const ofPrincipals = PRINCIPAL_SECTIONS.flatMap((section) =>
        Object.entries(tenant[section] ?? {}).flatMap(([id, { allowlist, keep }]): List[] =>
          allowlist === undefined || keep === true ? [] : [[[...path, section, id, 'allowlist'], allowlist]],
        ),
      )
      return [[[...path, 'allowlist'], tenant.allowlist], ...ofPrincipals]
    }),
  ]
}

/** One entry of each list that is needed: those of principals before that of the tenant, which is for all its callers. */
function entriesThatAllow(entitlement: Entitlement, request: CallRequest): Path[] {
  const { allowing } = entitlement
  const ofPrincipals = allowing.filter(({ keySuffix }) => keySuffix !== '')
  const entries = entriesFor(entitlement, request)
  const within = (grants: readonly Grant[]) =>
    grants.flatMap((grant) => {
      const own = entries.filter(({ path }) => isWithin(path, [...grant.path, 'allowlist']))
      if (request.readings.length > 1) return own.map(({ path }) => path)
      const [first] = own.sort((a, b) => literals(b.name) - literals(a.name))
      return first === undefined ? [] : [first.path]
    })
  const found = request.readings.length > 1 ? [] : within(ofPrincipals)
  return found.length > 0 ? found : within(allowing)
}

function isWithin(path: Path, list: Path): boolean {
  return path.length === list.length + 1 && list.every((step, at) => path[at] === step)
}

function literals(pattern: string): number {
  return pattern.replaceAll('*', '').length
}

/** Patterns that match what was used and no more than the pattern; undefined to leave it. */
function narrowed(pattern: string, { tools }: EntryUse): readonly string[] | undefined {
  if (namesOneTool(pattern) || ![...tools.values()].every(({ isNarrowable }) => isNarrowable))
    return undefined
  const by = [...tools].flatMap(([name, { references }]) => {
    const versions = versionsOf(pattern, name)
    return versions === undefined ? [...references].map(asPattern) : [`${name}${versions}`]
  })
  return by.sort()
}

function namesOneTool(pattern: string): boolean {
  const [name = ''] = pattern.replace(PREFIX, '').split('@')
  return name.includes('/') && !name.includes('*')
}

/**
 * What is appended to the name of a tool that the pattern matches, for all versions that the pattern matches of it; undefined
 * if these are not known. A reference has one "@", so that the parts of a pattern before and after it match by themselves.
 */
function versionsOf(pattern: string, name: string): string | undefined {
  const at = pattern.lastIndexOf('@')
  if (at > 0) return pattern.slice(at)
  // Without `mcp://`, a pattern without a version is of all versions. With it, its stars match the version too.
  const isOfAll = !pattern.startsWith(PREFIX) || `${PREFIX}${name}`.startsWith(pattern.replace(/\*$/, ''))
  return isOfAll ? '' : undefined
}

/** Whether the pattern limits no names but those that are spelled as it is. */
function hasOneSpelling(pattern: string): boolean {
  return /^[\x21-\x7e]+$/.test(pattern) && !/[A-Z]|(?:^|[/@])\.|\.(?:$|[/@])/.test(pattern)
}
