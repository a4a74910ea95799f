// Lists which tools of a server a policy lets each tenant use, by the judge's decision about a `tools/list`.
import { type Identity, policyTokens, resolveOptional, services } from '@svc/core'
import { nameOutside } from '@svc/core/match'
import { listedReference } from '../mcp/references.js'
import type { Policy } from '../policy/config.js'
import { Judge } from '../policy-tools/judge/judge.js'
import type { StagePlace } from '../policy-tools/judge/stages.js'
import { toolListing } from '../policy-tools/judge/tool-listing.js'

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
export async function accessTo(tools: ListedTools, policy: Policy, place: StagePlace): Promise<ToolAccess[]> {
  await using judge = await Judge.start(policy, { place, runsUnstated: true, through: 'verdict' })
  const listed = resolveOptional(judge.container, services.namedTenants) ?? []
  const other = nameOutside(listed)
  const withTokens = [
    // The text of a pattern is a name that it matches.
    ...listed.map((tenant) => ({ who: `tenant "${tenant}"`, tenant })),
    ...(other === undefined
      ? []
      : [{ who: listed.length === 0 ? 'each tenant' : 'each other tenant', tenant: other }]),
  ]
  // Without validated tokens the gateway's own tenant is the only one.
  const knowsUsers = resolveOptional(judge.container, policyTokens.knowsUsers) !== false
  const groups = [
    { who: `a caller without a token, of tenant "${policy.host.tenant}",`, tenant: undefined },
    ...(knowsUsers ? withTokens : []),
  ]
  const found = await Promise.all(
    groups.map(async ({ who, tenant }) => ({ who, usable: await usableBy(tenant, tools, judge) })),
  )
  return found.flatMap(({ who, usable }) => (usable === undefined ? [] : [{ who, usable }]))
}

/** The tools that content rules refuse for every caller under the policy's verdict, with the reasons. */
export async function refusalsOf(
  { server, version, names }: ListedTools,
  policy: Policy,
  place: StagePlace,
): Promise<{ readonly tool: string; readonly reason: string }[]> {
  const judging = policy.plugins.filter(
    ({ phase = 'inspection' }) => phase === 'inspection' || phase === 'decision',
  )
  const judged = { ...policy, plugins: judging }
  await using judge = await Judge.start(judged, { place, runsUnstated: true, through: 'verdict' })
  const call = toolListing(callerOf(''), server, version)
  await judge.judge(call)
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
  judge: Judge,
): Promise<string[] | undefined> {
  const call = toolListing(callerOf(tenant), server, version)
  const { outcome } = await judge.judge(call)
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
