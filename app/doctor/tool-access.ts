// Lists which tools of a server a policy lets each tenant use, by the stages' explanations of a `tools/list`.
import {
  callRequest,
  identity,
  type PluginContext,
  policyTokens,
  resolveOptional,
  type SectionEntry,
  services,
} from '@svc/core'
import { type CallControl, compose, type PlacedStage } from '@svc/core/pipeline'
import { listedReference } from '../mcp/references.js'
import type { Policy } from '../policy/config.js'
import { unsent, unsentCall } from '../policy/unsent-call.js'

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
  const stages = stagesOf(policy, policy.plugins, context)
  const listed = resolveOptional(context.container, services.namedTenants) ?? []
  const withTokens = [
    ...listed.map((tenant) => ({ who: `tenant "${tenant}"`, tenant })),
    { who: listed.length === 0 ? 'each tenant' : 'each other tenant', tenant: unlistedOf(listed) },
  ]
  // Without validated tokens there is no other tenant than the gateway's own.
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
  const control = listingOf('', server, version)
  const { call } = control
  await compose(stagesOf(policy, judging, context), () => Promise.resolve(unsent))(control)
  return names.flatMap((tool) => {
    const reference = listedReference(server, 'tool', tool, version)
    const denial = reference === undefined ? undefined : call.denialOf(reference, 'tool')
    return denial === undefined ? [] : [{ tool, reason: denial.reason }]
  })
}

function stagesOf(policy: Policy, plugins: Policy['plugins'], context: PluginContext): PlacedStage[] {
  return plugins.map((plugin) =>
    explainingStage(plugin.name, plugin.create(policy.sections.get(plugin.name), context)),
  )
}

function explainingStage(name: string, stage: PlacedStage['stage']): PlacedStage {
  const explain = stage.explain?.bind(stage)
  const handle: PlacedStage['stage']['handle'] =
    explain === undefined ? (_call, next) => next() : (call, next) => explain(call, next, () => undefined)
  return { name, stage: { handle } }
}

/** Undefined for callers that may not send anything. */
async function usableBy(
  tenant: string | undefined,
  { server, version, names }: ListedTools,
  stages: readonly PlacedStage[],
): Promise<string[] | undefined> {
  const control = listingOf(tenant, server, version)
  const { call } = control
  const outcome = await compose(stages, () => Promise.resolve(unsent))(control)
  if (outcome.kind !== 'completed') return outcome.code === 'UNAUTHENTICATED' ? undefined : []
  return names.filter((tool) => {
    const reference = listedReference(server, 'tool', tool, version)
    return reference !== undefined && call.mayRequest(reference, 'tool')
  })
}

/** A name that no tenant has. */
function unlistedOf(tenants: readonly string[]): string {
  return `${tenants.join('-')}-other`
}

/** Without a tenant the caller has no token. */
function listingOf(tenant: string | undefined, server: string, version: string): CallControl {
  const request = callRequest({
    kind: 'protocol',
    method: 'tools/list',
    server,
    name: 'POST',
    version,
    args: {},
    idempotencyKey: null,
  })
  const control = unsentCall(request)
  if (tenant !== undefined) control.call.set(identity, { tenant, authenticated: true, roles: [] })
  return control
}
