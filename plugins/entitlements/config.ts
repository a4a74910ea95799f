// The `entitlements` section (contract.md §2.8, decisions.md §3).
import { compilePattern, PatternError } from '@svc/core/match'
import { z } from 'zod'

const limitFields = {
  calls_per_day: z.int().min(0).optional().describe('Calls per UTC day, of each tool.'),
  rate_per_sec: z.number().positive().optional().describe('Calls per second, of each tool, on average.'),
  burst: z
    .number()
    .min(1)
    .optional()
    .describe('Calls that may come at once; the rate, at least 1, where not given.'),
}

const patternList = z.array(z.string().superRefine((source, context) => checkPattern(source, [], context)))
const allowlist = patternList.describe('Patterns of what may be used; an empty list allows nothing.')
const denylist = patternList.optional().describe('Patterns of what may not be used: deny beats allow.')

const toolLimit = z
  .strictObject(limitFields)
  .superRefine(checkBurst)
  .describe('Limits of the tools that the pattern matches.')

const perTool = z
  .record(z.string(), toolLimit)
  .superRefine((limits, context) => {
    for (const source of Object.keys(limits)) checkPattern(source, [source], context)
  })
  .describe('Pattern to limits; the most specific pattern wins.')

const plan = z
  .strictObject({ ...limitFields, allowlist: allowlist.optional(), denylist })
  .superRefine(checkBurst)
  .describe('What every tenant of the plan has.')

const principal = z
  .strictObject({ allowlist: allowlist.optional(), denylist, per_tool: perTool.optional() })
  .describe('Added to what the tenant has; limits are counted for this one alone.')

const principals = (who: string) => z.record(z.string(), principal).optional().describe(who)

const tenant = z
  .strictObject({
    plan: z.string().describe('One of `plans`.'),
    allowlist,
    denylist,
    per_tool: perTool.optional(),
    users: principals('By user, as the user claim has it.'),
    user_ids: principals('By subject, as the subject claim has it.'),
    roles: principals('By role.'),
    agents: principals('By service agent: a token without a user.'),
    agent_nodes: principals('By agent node; an allowlist counts only where the token names the node.'),
  })
  .describe('What one tenant may use.')

export const entitlementsSchema = z
  .strictObject({
    default_plan: z.string().describe('Plan of tenants that `tenants` does not name.'),
    plans: z.record(z.string(), plan).describe('Plans by name.'),
    tenants: z.record(z.string(), tenant).describe('Tenants by name, as the tenant claim has it.'),
  })
  .describe('Which tools a tenant, and who within it, may use, and how often.')
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
