// Adds a finding if the caller may not use the tool, and sets the limits of the call.
import {
  type Call,
  type CallRequest,
  decidingPattern,
  identity,
  isPending,
  type Limit,
  limits,
  type MaybePromise,
  type Next,
  type Outcome,
  type Stage,
} from '@svc/core'
import { compilePatternMap } from '@svc/core/match'
import type { Entitlement } from './entitlement.js'
import { entriesFor } from './entries.js'
import type { PatternList } from './grant.js'
import type { Tenants } from './tenants.js'

const ANONYMOUS = { roles: [] }

export class EntitlementsStage implements Stage {
  /** Nothing outside the process is asked. */
  readonly effects = 'none'
  #tenants: Tenants
  #tenant: string

  /** `tenant` is that of calls without an identity. */
  constructor(tenants: Tenants, tenant: string) {
    this.#tenants = tenants
    this.#tenant = tenant
  }

  handle(call: Call, next: Next): MaybePromise<Outcome> {
    const request = call.request()
    if (isPending(request)) return request.then(() => this.handle(call, next))
    const caller = call.get(identity)
    const tenant = caller?.tenant ?? this.#tenant
    const entitlement = this.#tenants.entitlementOf(tenant, caller ?? ANONYMOUS, call.agent.nodeId)
    const { finding, limits: applied, pattern } = entitlement.decisionOn(request)
    call.addReferenceRule(entitlement.rule)
    if (finding !== undefined) call.addFinding(finding)
    call.set(limits, applied)
    if (pattern !== undefined) call.set(decidingPattern, pattern)
    if (call.isNoted) this.#explain(call, request, entitlement)
    return next()
  }

  #explain(call: Call, request: CallRequest, entitlement: Entitlement): void {
    const tenant = call.get(identity)?.tenant ?? this.#tenant
    if (this.#tenants.hasPlans) {
      const status = this.#tenants.has(tenant) ? 'is listed' : 'is not listed: the default plan applies'
      call.note(`tenant "${tenant}" ${status}`)
    }
    explainEntitlement(entitlement, request, (line) => call.note(line))
    for (const entry of entriesFor(entitlement, request)) call.note('', entry)
  }
}

/** Describes for `svc policy explain` the grants, patterns and limits that apply to a call. */
function explainEntitlement(
  entitlement: Entitlement,
  request: CallRequest,
  say: (line: string) => void,
): void {
  const { reference, readings, kind } = request
  for (const { name } of entitlement.grants) say(`applies: ${name}`)
  const { finding, limits } = entitlement.decisionOn(request)
  if (finding !== undefined) say(`${finding.reason}: ${finding.detail}`)
  if (kind === 'protocol') {
    if (finding === undefined) say(`allowed: the caller may use something on server "${request.server}"`)
    return
  }
  for (const grant of entitlement.grants) {
    const { name, deny, allow } = grant
    for (const pattern of patternsFor(deny, readings)) {
      say(`denied by "${pattern}" in the denylist of ${name}`)
    }
    if (finding?.reason === 'tool_in_denylist' || !entitlement.allowing.includes(grant)) continue
    for (const reading of readings) {
      const as = reading === reference ? '' : `, read as ${reading}`
      for (const pattern of patternsFor(allow, [reading], 1)) {
        say(`allowed by "${pattern}" in the allowlist of ${name}${as}`)
      }
    }
  }
  for (const limit of limits) say(describeLimit(limit))
}

/** The patterns that match a reading; without `spellings`, as it is written and folded. */
function patternsFor(
  list: PatternList | undefined,
  readings: readonly string[],
  spellings?: number,
): string[] {
  if (list === undefined) return []
  const patterns = compilePatternMap(Object.fromEntries(list.sources.map((source) => [source, true])))
  const found = patterns.lookup(readings).slice(0, spellings).flat()
  return [...new Set(found.map(({ pattern }) => pattern))]
}

function describeLimit({ key, level, callsPerDay, ratePerSec, burst }: Limit): string {
  const parts: string[] = []
  if (ratePerSec !== undefined) {
    parts.push(`${ratePerSec} calls per second${burst === undefined ? '' : `, ${burst} at once`}`)
  }
  if (callsPerDay !== undefined) parts.push(`${callsPerDay} calls per day`)
  return `limit of the ${level}: ${parts.join('; ')}, counter ${key}`
}
