// The `entitlements` section: which tools each tenant and principal may use, and how often.
import {
  type ConfigConflict,
  decidingPattern,
  definePlugin,
  hostOf,
  identity,
  limits,
  type NamedCaller,
  owned,
  policyTokens,
  services,
} from '@svc/core'
import type { z } from 'zod'
import {
  type EntitlementsConfig,
  entitlementsSchema,
  PRINCIPAL_SECTIONS,
  type TenantConfig,
} from './config.js'
import { EntitlementsNarrowing } from './narrowing.js'
import { EntitlementsStage } from './stage.js'
import { Tenants } from './tenants.js'

export const entitlementsPlugin = definePlugin({
  name: 'entitlements',
  version: '1.0.0',
  core: '^1.0.0',
  schema: entitlementsSchema,
  phase: 'authorization',
  uses: [identity],
  provides: [limits, decidingPattern],
  owns: [
    owned(policyTokens.allowedTools, describeTools),
    owned(services.namedTenants, (config: Section) =>
      typeof config === 'string' ? undefined : Object.keys(config.tenants),
    ),
    owned(services.namedCallers, (config: Section) => namedCallers(config)),
    owned(
      services.narrowing,
      (config: Section, bindings) => () => new EntitlementsNarrowing(config, hostOf(bindings).tenant ?? ''),
    ),
  ],
  check: (config) => checkSection(config),

  create: (config, context) => new EntitlementsStage(new Tenants(config), context.tenant),
})

type Section = z.output<typeof entitlementsSchema>

function checkSection(config: Section): readonly ConfigConflict[] {
  if (typeof config !== 'string') return ineffectiveLists(config)
  const message =
    config === 'open'
      ? 'every tool is allowed to every tenant; list the allowed tools per plan and tenant'
      : 'without an entitlements section no tool is allowed to any tenant; list tools per plan and tenant, or set entitlements: open'
  return [{ path: ['entitlements'], message, severity: 'warning' }]
}

type Path = readonly (string | number)[]

function ineffectiveLists(config: EntitlementsConfig): ConfigConflict[] {
  const { default_plan, plans, tenants } = config
  const found: ConfigConflict[] = []
  const warn = (path: Path, message: string) =>
    found.push({ path: ['entitlements', ...path], message, severity: 'warning' })
  if (plans[default_plan]?.allowlist === undefined) {
    warn(
      ['default_plan'],
      `the plan "${default_plan}" has no allowlist: tenants without an entry may use nothing`,
    )
  }
  for (const [name, tenant] of Object.entries(tenants)) {
    const lost = plans[tenant.plan]?.allowlist?.filter((pattern) => !tenant.allowlist.includes(pattern))
    if (lost !== undefined && lost.length > 0) {
      const message = `its own list stands in place of that of its plan, whose ${lost.length === 1 ? `"${lost[0]}"` : `${lost.length} patterns`} it does not have`
      found.push({ path: ['entitlements', 'tenants', name, 'allowlist'], message, severity: 'note' })
    }
    for (const { path, allowlist, isAdded } of principalLists(tenant)) {
      if (isAdded && allowlist.every((pattern) => tenant.allowlist.includes(pattern))) {
        warn(['tenants', name, ...path, 'allowlist'], 'adds nothing to the allowlist of the tenant')
      }
    }
  }
  return found
}

function principalLists(tenant: TenantConfig) {
  return PRINCIPAL_SECTIONS.flatMap((kind) =>
    Object.entries(tenant[kind] ?? {}).flatMap(([id, principal]) => {
      const { allowlist } = principal
      const isAdded = !('override' in principal && principal.override === true)
      return allowlist === undefined ? [] : [{ path: [kind, id], allowlist, isAdded }]
    }),
  )
}

/** Describes the lists alone, in a few words. */
function describeTools(config: Section): string {
  if (typeof config === 'string') return config === 'open' ? 'every tool' : 'no tool'
  const { default_plan, plans, tenants } = config
  const others = describeLists(plans[default_plan] ?? {})
  const named = Object.entries(tenants).map(([tenant, { plan, allowlist, denylist = [] }]) => {
    const denied = [...denylist, ...(plans[plan]?.denylist ?? [])]
    return `${describeLists({ allowlist, denylist: denied })} (${tenant})`
  })
  return named.length === 0 ? others : `${some(named, 2)}; ${others} (other tenants)`
}

interface Lists {
  readonly allowlist?: readonly string[] | undefined
  readonly denylist?: readonly string[] | undefined
}

function describeLists({ allowlist = [], denylist = [] }: Lists): string {
  if (allowlist.length === 0) return 'no tool'
  const allowed = allowlist.includes('*') ? 'every tool' : some(allowlist, 4)
  return denylist.length === 0 ? allowed : `${allowed}, but not ${some(denylist, 4)}`
}

function some(all: readonly string[], max: number): string {
  const left = all.length - max
  return left <= 0 ? all.join(', ') : `${all.slice(0, max).join(', ')} and ${left} more`
}

const sections = [
  ['users', 'user'],
  ['user_ids', 'user_id'],
  ['roles', 'role'],
  ['agents', 'agent'],
  ['agent_nodes', 'node'],
] as const

/** Undefined if no tenant has rules of its own. */
function namedCallers(config: EntitlementsConfig | 'open' | 'none'): NamedCaller[] | undefined {
  if (typeof config === 'string') return undefined
  return Object.entries(config.tenants).flatMap(([tenant, rules]): NamedCaller[] => [
    { tenant, kind: 'anyone', name: '' },
    ...ofTenant(tenant, rules),
  ])
}

function ofTenant(tenant: string, rules: TenantConfig): NamedCaller[] {
  return sections.flatMap(([section, kind]) =>
    Object.keys(rules[section] ?? {}).map((name) => ({ tenant, kind, name })),
  )
}
