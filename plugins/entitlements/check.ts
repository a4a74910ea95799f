// Warns of allowlists that allow less than they seem to.
import type { ConfigConflict } from '@svc/core'
import type { EntitlementsConfig, TenantConfig } from './config.js'

const KINDS = ['users', 'user_ids', 'roles', 'agents', 'agent_nodes'] as const

type Path = readonly (string | number)[]

export function ineffectiveLists(config: EntitlementsConfig, servers?: readonly string[]): ConfigConflict[] {
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
  const checkServers = (path: Path, allowlist: readonly string[] = []) => {
    for (const [index, pattern] of allowlist.entries()) {
      if (servers === undefined || namesTarget(pattern, servers)) continue
      warn(
        [...path, 'allowlist', index],
        `"${pattern}" names no target; known: ${servers.join(', ') || 'none'}`,
      )
    }
  }
  for (const [name, { allowlist }] of Object.entries(plans)) checkServers(['plans', name], allowlist)
  for (const [name, tenant] of Object.entries(tenants)) {
    checkServers(['tenants', name], tenant.allowlist)
    for (const { path, allowlist, isAdded } of principalLists(tenant)) {
      checkServers(['tenants', name, ...path], allowlist)
      if (isAdded && allowlist.every((pattern) => tenant.allowlist.includes(pattern))) {
        warn(['tenants', name, ...path, 'allowlist'], 'adds nothing to the allowlist of the tenant')
      }
    }
  }
  return found
}

function principalLists(tenant: TenantConfig) {
  return KINDS.flatMap((kind) =>
    Object.entries(tenant[kind] ?? {}).flatMap(([id, principal]) => {
      const { allowlist } = principal
      const isAdded = !('override' in principal && principal.override === true)
      return allowlist === undefined ? [] : [{ path: [kind, id], allowlist, isAdded }]
    }),
  )
}

/** A pattern with a `/` begins with the server, which may hold `*`. */
function namesTarget(pattern: string, servers: readonly string[]): boolean {
  const reference = pattern.replace(/^mcp:\/\//, '')
  const slash = reference.indexOf('/')
  if (slash === -1) return true
  const literals = reference
    .slice(0, slash)
    .split('*')
    .map((text) => text.replace(/[.+?^${}()|[\]\\]/g, '\\$&'))
  const server = new RegExp(`^${literals.join('.*')}$`)
  return servers.some((name) => server.test(name.replace(/[/@%]/g, encodeURIComponent)))
}
