// Finds the entry of a policy that decided a recorded call.
import { compilePatternMap, type NameMatch, NamePatterns, PatternError } from '@svc/core/match'
import type { SignedEnvelope } from '@svc/plugin-audit/log'
import { z } from 'zod'

export type Path = readonly (string | number)[]

const patterns = z.array(z.string()).catch([])
const entry = z.looseObject({
  allowlist: patterns,
  denylist: patterns,
  per_tool: z.record(z.string(), z.unknown()).catch({}),
})
const principalsSchema = z.record(z.string(), z.unknown()).catch({})
const principals = ['users', 'user_ids', 'roles', 'agents', 'agent_nodes'] as const
const policySchema = z.looseObject({
  rules: z.array(z.looseObject({ name: z.string().optional() }).catch({})).catch([]),
  entitlements: z
    .looseObject({
      default_plan: z.string().optional(),
      plans: z.record(z.string(), entry.catch({ allowlist: [], denylist: [], per_tool: {} })).catch({}),
      tenants: z.record(z.string(), entry.extend({ plan: z.string().optional() })).catch({}),
    })
    .catch({ plans: {}, tenants: {} }),
})

type ReadPolicy = z.output<typeof policySchema>
type DecidedBy = NonNullable<SignedEnvelope['decided_by']>

/** The members of a record that name the deciding entry. */
export interface DecidedRecord
  extends Pick<SignedEnvelope, 'tenant' | 'server' | 'tool' | 'principal' | 'decided_by' | 'policy_sha256'> {
  readonly findings?: readonly { readonly reason: string; readonly effect: string }[]
}

/** Keys of the findings whose rule is one key of the policy. */
const keys: Readonly<Record<string, Path>> = {
  version_unpinned: ['security', 'allow_versions'],
  egress_violation: ['security', 'egress_allowlist'],
  fs_violation: ['security', 'fs_allowlist'],
  payload_too_large: ['security', 'limits', 'max_payload_kb'],
  duration_too_long: ['security', 'limits', 'max_duration_ms'],
  missing_idempotency_for_side_effect: ['security', 'side_effects', 'require_idempotency_key'],
}

/** The paths, the most exact first; those that a policy does not have are passed over by the caller. `policy` is its value. */
export function decisionPlaces(record: DecidedRecord, policy: unknown): readonly Path[] {
  const decided = record.decided_by
  if (decided === undefined) return []
  const read = policySchema.safeParse(policy).data
  if (read === undefined) return []
  return [...exactPlaces(record, decided, read), [decided.stage]]
}

function exactPlaces(record: DecidedRecord, decided: DecidedBy, policy: ReadPolicy): readonly Path[] {
  const { rule, pattern, limit, approval } = decided
  if (pattern !== undefined) return patternPlaces(record, pattern, policy)
  if (limit !== undefined) return limitPlaces(record, limit, policy)
  if (approval !== undefined)
    return (record.findings ?? [])
      .filter(({ effect }) => effect === 'escalate')
      .flatMap(({ reason }) => reasonPlaces(record, reason, policy))
  return rule === undefined ? [] : reasonPlaces(record, rule, policy)
}

function reasonPlaces(record: DecidedRecord, reason: string, policy: ReadPolicy): readonly Path[] {
  const key = Object.hasOwn(keys, reason) ? keys[reason] : undefined
  if (key !== undefined) return [key]
  if (reason === 'tool_not_in_allowlist')
    return entriesOf(record, policy).map((path) => [...path, 'allowlist'])
  const index = policy.rules.findIndex(({ name }) => reason === `rule:${name}`)
  return index < 0 ? [] : [['rules', index]]
}

/** The entries of the plan and of principals are after that of the tenant. */
function entriesOf({ tenant, principal }: DecidedRecord, { entitlements }: ReadPolicy): Path[] {
  const tenants = matching(entitlements.tenants, tenant)
  const [own] = tenants.filter(({ isWritten }) => isWritten)
  const plan = (own && entitlements.tenants[own.key]?.plan) ?? entitlements.default_plan
  const { user = '', user_id = '', client_id = '', roles = [] } = principal ?? {}
  const ids = { users: [user], user_ids: [user_id], roles, agents: [client_id], agent_nodes: [] }
  const paths = tenants.map(({ key }) => ['entitlements', 'tenants', key])
  return [
    ...paths,
    ...paths.flatMap((path) =>
      principals.flatMap((kind) => {
        const entries = principalsSchema.parse(valueAt({ entitlements }, [...path, kind]))
        return ids[kind].flatMap((id) => matching(entries, id).map(({ key }) => [...path, kind, key]))
      }),
    ),
    ...(plan === undefined ? [] : [['entitlements', 'plans', plan]]),
  ]
}

function matching(entries: object, name: string): readonly NameMatch[] {
  return new NamePatterns(Object.keys(entries)).match(name)
}

function patternPlaces(record: DecidedRecord, pattern: string, policy: ReadPolicy): readonly Path[] {
  return entriesOf(record, policy).flatMap((path) => {
    const found = entry.safeParse(valueAt(policy, path)).data
    if (found === undefined) return []
    // A denied call names the entry of a denylist, an allowed one that of an allowlist.
    const lists =
      record.decided_by?.rule === 'tool_in_denylist' ? (['denylist'] as const) : (['allowlist'] as const)
    return lists.flatMap((list) => {
      const index = found[list].indexOf(pattern)
      return index < 0 ? [] : [[...path, list, index]]
    })
  })
}

/** The entry whose limit counts the tool, or the plan with the limit. */
function limitPlaces(record: DecidedRecord, limit: string, policy: ReadPolicy): readonly Path[] {
  const found = entriesOf(record, policy).flatMap((path) => {
    const perTool = entry.safeParse(valueAt(policy, path)).data?.per_tool ?? {}
    const pattern = Object.hasOwn(perTool, limit) ? limit : mostSpecific(perTool, referenceOf(record))
    return pattern === undefined ? [] : [[...path, 'per_tool', pattern]]
  })
  const plan = entriesOf(record, policy).filter(([, kind]) => kind === 'plans')
  // A principal's counter has its own suffix.
  const isOwn = limit.includes('#')
  return [...found.filter((path) => path.length > 5 === isOwn), ...found, ...plan]
}

function mostSpecific(perTool: Record<string, unknown>, reference: string): string | undefined {
  try {
    return compilePatternMap(perTool).lookup([reference]).flat()[0]?.pattern
  } catch (error) {
    if (error instanceof PatternError) return undefined
    throw error
  }
}

function referenceOf({ server, tool }: DecidedRecord): string {
  return `mcp://${server.slice(0, server.lastIndexOf('@'))}/${tool}`
}

function valueAt(policy: unknown, path: Path): unknown {
  return path.reduce<unknown>(
    (value, key) =>
      typeof value === 'object' && value !== null && Object.hasOwn(value, key)
        ? Reflect.get(value, key)
        : undefined,
    policy,
  )
}
