// Facts of the host's part of a policy for plugins, used when the policy is checked and when stages are created.
import { resolve } from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import type { PluginContext, PolicyFacts } from '@svc/core'
import { stdioTargetsOf } from '../stdio-targets/config.js'
import type { HostConfig } from './config.js'

/** Reviewers are known only with an admin listener; servers only with targets, which an embedded pipeline has not. */
export function hostFacts({ admin, targets, tenant }: HostConfig): PolicyFacts {
  const names = Object.keys(targets)
  const serversWithoutHeaders = [...stdioTargetsOf(targets).values()].map(({ server }) => server)
  const known = { tenant, ...(names.length === 0 ? {} : { servers: names, serversWithoutHeaders }) }
  if (admin === undefined) return known
  const { reviewer_roles: roles, approval_sets: approvalSets } = admin
  return { ...known, reviewers: { ...(roles === undefined ? {} : { roles }), approvalSets } }
}

/** The directories of a policy whose relative paths start from `baseDir`. */
export function policyPlace(
  { sec0Dir }: HostConfig,
  baseDir: string,
  env?: PluginContext['env'],
): NonNullable<PolicyFacts['place']> {
  return { baseDir, stateDir: resolve(baseDir, sec0Dir), ...(env === undefined ? {} : { env }) }
}

/** Settings that a reload changes. */
const reloadable: ReadonlySet<string> = new Set([
  'publicUrl',
  'trustedProxies',
  'allowedHosts',
  'allowedOrigins',
])

/** The names of settings that differ and take effect at the next start. */
export function settingsRequiringRestart(running: HostConfig, next: HostConfig): string[] {
  const before: Record<string, unknown> = running.server
  const after: Record<string, unknown> = next.server
  const names = [...new Set([...Object.keys(before), ...Object.keys(after)])].filter(
    (name) => !reloadable.has(name) && !isDeepStrictEqual(before[name], after[name]),
  )
  return [
    ...(running.port === next.port ? [] : ['port']),
    ...names.map((name) => `server.${name}`),
    ...changedAdminSettings(running.admin, next.admin),
  ]
}

/** A reload changes the token and the reviewers, but neither whether nor on which address the listener listens. */
function changedAdminSettings(running: HostConfig['admin'], next: HostConfig['admin']): string[] {
  if (running === undefined || next === undefined) return running === next ? [] : ['admin']
  const settings = ['port', 'host', 'tls'] as const
  return settings.filter((key) => !isDeepStrictEqual(running[key], next[key])).map((key) => `admin.${key}`)
}
