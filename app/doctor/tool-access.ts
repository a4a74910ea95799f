// Lists which tools of a server a policy lets each tenant use, by the stages' explanations of a `tools/list`.
import {
  type Identity,
  type PluginContext,
  policyTokens,
  resolveOptional,
  type SectionEntry,
  services,
} from '@svc/core'
import { nameOutside } from '@svc/core/match'
import type { PlacedStage } from '@svc/core/pipeline'
import { listedReference } from '../mcp/references.js'
import type { Policy } from '../policy/config.js'
import { explainedStages, judgeUnsent, toolListing } from '../policy-explain/explained-stages.js'

/** The tools of one server. */
export interface ListedTools {
  readonly server: string
  readonly version: string
  readonly names: readonly string[]
}

/** The access of one group of callers. Users and roles of a tenant may have more. */
interface ToolAccess {
  readonly who: string
  readonly usable: readonly string[]
}

/** Rejects with what a plugin's `create` throws. */
export async function accessTo(
  tools: ListedTools,
  policy: Policy,
  context: PluginContext,
): Promise<ToolAccess[]> {
  const stages = explainedStages(policy, policy.plugins, context)
  const listed = resolveOptional(context.container, services.namedTenants) ?? []
  const other = nameOutside(listed)
  const withTokens = [
    // The text of a pattern is a name that it matches.
    ...listed.map((tenant) => ({ who: `tenant "${tenant}"`, tenant })),
    ...(other === undefined
      ? []
      : [{ who: listed.length === 0 ? 'each tenant' : 'each other tenant', tenant: other }]),
  ]
  // Without validated tokens the gateway's own tenant is the only one.
  const knowsUsers = resolveOptional(context.container, policyTokens.knowsUsers) !== false
  const groups = [
    { who: `a caller without a token, of tenant "${policy.host.tenant}",`, tenant: undefined },
    ...(knowsUsers ? withTokens : []),
  ]
  const found = await Promise.all(
    groups.map(async ({ who, tenant }) => ({ who, usable: await usableBy(tenant, tools, stages) })),
  )
  return found.flatMap(({ who, usable }) => (usable === undefined ? [] : [{ who, usable }]))
}

/** The entries of sections that apply to some calls only. */
export function entriesOf(policy: Policy, context: PluginContext): SectionEntry[] {
  return policy.plugins.flatMap((plugin) => {
    const stage = plugin.create(policy.sections.get(plugin.name), context)
    return stage.entries?.all ?? []
  })
}

/** The tools that content rules refuse for every caller under the policy's verdict, with the reasons. */
export async function refusalsOf(
  { server, version, names }: ListedTools,
  policy: Policy,
  context: PluginContext,
): Promise<{ readonly tool: string; readonly reason: string }[]> {
  const judging = policy.plugins.filter(
    ({ phase = 'inspection' }) => phase === 'inspection' || phase === 'decision',
  )
  const control = toolListing(callerOf(''), server, version)
  const { call } = control
  await judgeUnsent(explainedStages(policy, judging, context))(control)
  return names.flatMap((tool) => {
    const reference = listedReference(server, 'tool', tool, version)
    const denial = reference === undefined ? undefined : call.denialOf(reference, 'tool')
    return denial === undefined ? [] : [{ tool, reason: denial.reason }]
  })
}

/** Undefined for callers that may not send anything. */
async function usableBy(
  tenant: string | undefined,
  { server, version, names }: ListedTools,
  stages: readonly PlacedStage[],
): Promise<string[] | undefined> {
  const control = toolListing(callerOf(tenant), server, version)
  const { call } = control
  const outcome = await judgeUnsent(stages)(control)
  if (outcome.kind !== 'completed') return outcome.code === 'UNAUTHENTICATED' ? undefined : []
  return names.filter((tool) => {
    const reference = listedReference(server, 'tool', tool, version)
    return reference !== undefined && call.mayRequest(reference, 'tool')
  })
}

/** Without a tenant the caller has no token. */
function callerOf(tenant: string | undefined): Identity | undefined {
  return tenant === undefined ? undefined : { tenant, authenticated: true, roles: [] }
}
