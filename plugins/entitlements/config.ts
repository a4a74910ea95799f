// Schema of the `entitlements` section.
import { isTie, namePatternError } from '@svc/core/match'
import { patternSchema, patternsSchema } from '@svc/core/policy'
import { z } from 'zod'

const limitFields = {
  calls_per_day: z.int().min(0).optional().describe('Calls of each tool per UTC day.'),
  rate_per_sec: z.number().positive().optional().describe('Average calls of each tool per second.'),
  burst: z.number().min(1).optional().describe('Maximum calls at once. Default: `rate_per_sec`, at least 1.'),
}

const patternList = z.array(patternSchema.meta({ entry: 'pattern' }))
const allowlist = patternList.describe('Patterns of allowed references. An empty list allows nothing.')
const denylist = patternList
  .optional()
  .describe('Patterns of denied references. Deny takes precedence over allow.')

const toolLimit = z
  .strictObject(limitFields)
  .superRefine(checkBurst)
  .meta({ description: 'Limits of the tools that match the pattern.', entry: 'pattern' })

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
  .meta({ description: 'Limits and lists of all tenants with this plan.', entry: 'plan' })

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

/** A map of entries by patterns of names. One that no name can match would restrict nobody. */
function namesSchema<T extends z.ZodType>(value: T) {
  return z.record(z.string(), value).superRefine((entries, context) => {
    for (const name of Object.keys(entries)) {
      const message = namePatternError(name)
      if (message !== undefined)
        context.addIssue({ code: 'custom', path: [name], message: refused(name, message) })
    }
  })
}

function refused(name: string, message: string): string {
  return `pattern ${JSON.stringify(name.slice(0, 100))}: ${message}`
}

const principals = (key: string) => namesSchema(principal).optional().describe(key)

/** The keys of a tenant that have lists of principals. */
export const PRINCIPAL_SECTIONS = ['users', 'user_ids', 'roles', 'agents', 'agent_nodes'] as const

const tenant = z
  .strictObject({
    plan: z.string().describe('Name of one of `plans`.'),
    allowlist,
    denylist,
    per_tool: perTool.optional(),
    users: principals(
      'Users by patterns of the user claim, such as `*@contractor.example`. What restricts adds up over all that match, also folded; what allows matches names as they are written; each limit is that of the most specific that sets it.',
    ),
    user_ids: principals('Users by patterns of the subject claim.'),
    roles: principals('Roles by patterns of their names. All roles of the caller count.'),
    agents: principals(
      'Service agents by patterns of the client id. With a token that names a user too, the entry of its client only restricts.',
    ),
    agent_nodes: principals(
      'Agent nodes by patterns of their ids. An allowlist applies only if the token names the node.',
    ),
    keep,
  })
  .describe('Lists and limits of one tenant.')

const entitlements = z
  .strictObject({
    default_plan: z.string().describe('Plan of tenants that are not in `tenants`.'),
    plans: z.record(z.string(), plan).describe('Plans by name.'),
    tenants: namesSchema(tenant)
      .superRefine(checkTies)
      .describe(
        'Tenants by patterns of the tenant claim. The most specific that matches is the entry of a tenant; of the others the denylists apply too, and the limits that no more specific one sets.',
      ),
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

/** Refuses patterns that match the same tenant equally well: a tenant has one plan, so one entry has to apply. */
function checkTies(tenants: Readonly<Record<string, unknown>>, context: z.RefinementCtx): void {
  const patterns = Object.keys(tenants).filter((name) => name.includes('*'))
  for (const [index, name] of patterns.entries()) {
    const other = patterns.slice(0, index).find((one) => isTie(one, name))
    if (other === undefined) continue
    const message = `is as specific as "${other}", and a tenant may match both; accepted is one that is more specific`
    context.addIssue({ code: 'custom', path: [name], message: refused(name, message) })
  }
}

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
