// The `entitlements` section (contract.md §2.8, decisions.md §3).
import { compilePattern, PatternError } from '@svc/core'
import { z } from 'zod'

const limitFields = {
  calls_per_day: z.int().min(0).optional(),
  rate_per_sec: z.number().positive().optional(),
  /** Calls that may come at once; the rate, at least 1, where not given. */
  burst: z.number().min(1).optional(),
}

const patternList = z.array(z.string().superRefine((source, context) => checkPattern(source, [], context)))

const toolLimit = z.strictObject(limitFields).superRefine(checkBurst)

const perTool = z.record(z.string(), toolLimit).superRefine((limits, context) => {
  for (const source of Object.keys(limits)) checkPattern(source, [source], context)
})

const plan = z
  .strictObject({ ...limitFields, allowlist: patternList.optional(), denylist: patternList.optional() })
  .superRefine(checkBurst)

const principal = z.strictObject({
  allowlist: patternList.optional(),
  denylist: patternList.optional(),
  per_tool: perTool.optional(),
})

const principals = z.record(z.string(), principal).optional()

const tenant = z.strictObject({
  plan: z.string(),
  allowlist: patternList,
  denylist: patternList.optional(),
  per_tool: perTool.optional(),
  users: principals,
  user_ids: principals,
  roles: principals,
  agents: principals,
  agent_nodes: principals,
})

export const entitlementsSchema = z
  .strictObject({
    default_plan: z.string(),
    plans: z.record(z.string(), plan),
    tenants: z.record(z.string(), tenant),
  })
  // Also when something else is wrong: an author is told of all mistakes at once.
  .superRefine(checkPlanNames, { when: () => true })

export type EntitlementsConfig = z.infer<typeof entitlementsSchema>
export type TenantConfig = z.infer<typeof tenant>
export type PlanConfig = z.infer<typeof plan>
export type PrincipalConfig = z.infer<typeof principal>
export type ToolLimitConfig = z.infer<typeof toolLimit>

interface Rate {
  readonly rate_per_sec?: number | undefined
  readonly burst?: number | undefined
}

function checkBurst({ rate_per_sec, burst }: Rate, context: z.RefinementCtx): void {
  if (burst === undefined || rate_per_sec !== undefined) return
  context.addIssue({ code: 'custom', path: ['burst'], message: 'a burst needs a rate_per_sec beside it' })
}

function checkPattern(source: string, path: string[], context: z.RefinementCtx): void {
  try {
    compilePattern(source)
  } catch (thrown) {
    if (!(thrown instanceof PatternError)) throw thrown
    context.addIssue({ code: 'custom', path, message: thrown.message })
  }
}

const planNames = z.object({
  default_plan: z.string().optional().catch(undefined),
  plans: z.record(z.string(), z.unknown()),
  tenants: z.record(z.string(), z.object({ plan: z.string().optional() }).catch({})).catch({}),
})

function checkPlanNames(section: unknown, context: z.RefinementCtx): void {
  const { data } = planNames.safeParse(section)
  if (data === undefined) return
  const plans = Object.keys(data.plans)
  const check = (name: string | undefined, path: string[]) => {
    if (name === undefined || plans.includes(name)) return
    const known = plans.length === 0 ? 'there are none' : `they are ${plans.join(', ')}`
    context.addIssue({ code: 'custom', path, message: `no plan "${name}" in entitlements.plans; ${known}` })
  }
  check(data.default_plan, ['default_plan'])
  for (const [tenant, entitlement] of Object.entries(data.tenants)) {
    check(entitlement.plan, ['tenants', tenant, 'plan'])
  }
}
