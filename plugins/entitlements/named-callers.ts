// The callers that the section names.
import type { NamedCaller } from '@svc/core'
import type { EntitlementsConfig, TenantConfig } from './config.js'

const sections = [
  ['users', 'user'],
  ['user_ids', 'user_id'],
  ['roles', 'role'],
  ['agents', 'agent'],
  ['agent_nodes', 'node'],
] as const

/** Undefined if no tenant has rules of its own. */
export function namedCallers(config: EntitlementsConfig | 'open' | 'none'): NamedCaller[] | undefined {
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
