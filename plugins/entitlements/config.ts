// Schema of the `entitlements` section.
import { patternSchema, patternsSchema } from '@svc/core/policy'
import { z } from 'zod'

const limitFields = {
  calls_per_day: z.int().min(0).optional().describe('Calls of each tool per UTC day.'),
  rate_per_sec: z.number().positive().optional().describe('Average calls of each tool per second.'),
  burst: z.number().min(1).optional().describe('Maximum calls at once. Default: `rate_per_sec`, at least 1.'),
}

const patternList = z.array(patternSchema)
const allowlist = patternList.describe('Patterns of allowed references. An empty list allows nothing.')
const denylist = patternList
  .optional()
  .describe('Patterns of denied references. Deny takes precedence over allow.')

const toolLimit = z
  .strictObject(limitFields)
  .superRefine(checkBurst)
  .describe('Limits of the tools that match the pattern.')

const perTool = patternsSchema(toolLimit).describe('Limits by pattern. The most specific pattern wins.')

const keep = z
  .boolean()
  .optional()
  .describe(
    'Whether `npx svc-sdk policy suggest` leaves its lists and limits as they are, as for access in emergencies.',
  )

const plan = z
  .strictObject({ ...limitFields, allowlist: allowlist.optional(), denylist, keep })
  .superRefine(checkBurst)
  .describe('Limits and lists of all tenants with this plan.')

const principal = z
  .strictObject({
    allowlist: allowlist.optional(),
    denylist,
    per_tool: perTool.optional(),
    override: z
      .boolean()
      .optional()
      .describe('Its allowlist and limits replace those of the tenant and the plan. Denylists always add.'),
    keep,
  })
  .describe("Added to the tenant's lists. Limits are counted separately for this principal.")

const principals = (key: string) => z.record(z.string(), principal).optional().describe(key)

/** The keys of a tenant that have lists of principals. */
export const PRINCIPAL_SECTIONS = ['users', 'user_ids', 'roles', 'agents', 'agent_nodes'] as const

const tenant = z
  .strictObject({
    plan: z.string().describe('Name of one of `plans`.'),
    allowlist,
    denylist,
    per_tool: perTool.optional(),
    users: principals('Users by the user claim.'),
    user_ids: principals('Users by the subject claim.'),
    roles: principals('Roles by name.'),
    agents: principals('Service agents by client id: tokens without a user.'),
    agent_nodes: principals('Agent nodes by id. An allowlist applies only if the token names the node.'),
    keep,
  })
  .describe('Lists and limits of one tenant.')

const entitlements = z
  .strictObject({
    default_plan: z.string().describe('Plan of tenants that are not in `tenants`.'),
    plans: z.record(z.string(), plan).describe('Plans by name.'),
    tenants: z.record(z.string(), tenant).describe('Tenants by the tenant claim.'),
  })
  // The check runs even after other issues, so that all are reported at once.
  .superRefine(checkPlanNames, { when: () => true })

/** `open` allows every tool to every tenant. The output `none` stands for a policy without the section. */
export const entitlementsSchema = z
  .union([entitlements, z.literal('open')])
  .optional()
  .transform((section) => section ?? 'none')
  .describe(
    'Which tools each tenant and principal may use, and how often. The word `open` in place of the mapping allows every tool to every tenant. Without the section no tool is allowed.',
  )

export type EntitlementsConfig = z.infer<typeof entitlements>
export type TenantConfig = z.infer<typeof tenant>
export type ParsedPlan = z.infer<typeof plan>
export type PrincipalConfig = z.infer<typeof principal>
export type ToolLimitConfig = z.infer<typeof toolLimit>

interface Rate {
  readonly rate_per_sec?: number | undefined
  readonly burst?: number | undefined
}

function checkBurst({ rate_per_sec, burst }: Rate, context: z.RefinementCtx): void {
  if (burst === undefined || rate_per_sec !== undefined) return
  context.addIssue({ code: 'custom', path: ['burst'], message: 'burst requires rate_per_sec' })
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
    const known = plans.length === 0 ? 'no plans are defined' : `the plans are ${plans.join(', ')}`
    context.addIssue({ code: 'custom', path, message: `no plan "${name}" in entitlements.plans; ${known}` })
  }
  check(data.default_plan, ['default_plan'])
  for (const [name, { plan }] of Object.entries(data.tenants)) {
    check(plan, ['tenants', name, 'plan'])
  }
}
