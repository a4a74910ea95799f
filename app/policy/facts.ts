// Reads from a policy what plugins need of the host's part, the base of relative paths, and the settings that a reload
// changes.

import { resolve } from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import type { PluginContext, PolicyHost } from '@svc/core'
import { isLoopbackHost } from '@svc/core/http'
import { defined } from '@svc/core/json'
import { isLocalAddress } from '../http/allowed-hosts.js'
import { stdioTargetsOf } from '../stdio/targets/config.js'
import type { HostConfig } from './config.js'

/** Without an admin listener there are no reviewers; without targets, as in a program of one's own, servers are not known. */
export function policyHost(
  { admin, targets, tenant, vars }: HostConfig,
  place?: PolicyPlace,
  callers?: PolicyHost['callers'],
): PolicyHost {
  const servers = Object.keys(targets)
  const serversWithoutHeaders = [...stdioTargetsOf(targets).values()].map(({ server }) => server)
  const known = {
    tenant,
    ...defined({ vars, place, callers }),
    ...(servers.length === 0 ? {} : { servers, serversWithoutHeaders }),
  }
  if (admin === undefined) return known
  const approvalSets = Object.fromEntries(
    Object.entries(admin.approval_sets).map(([id, { users, reviewer_roles: roles }]) => [
      id,
      { users, roles },
    ]),
  )
  const passkeys = admin.passkeys.map(({ user, id, public_key: publicKey }) => ({
    ...defined({ user }),
    id,
    publicKey,
  }))
  return { ...known, reviewers: { roles: admin.roles.reviewer, approvalSets, passkeys } }
}

/** Who can send calls to the listener of a policy. Not known if clients need a certificate. */
export function callersOf({ server: { host, publicUrl, tls } }: HostConfig): PolicyHost['callers'] {
  if (tls?.clientCa !== undefined) return undefined
  const isProxied = publicUrl !== undefined && !isLoopbackHost(new URL(publicUrl).hostname)
  return isLocalAddress(host) && !isProxied ? 'local' : 'remote'
}

export type PolicyPlace = NonNullable<PolicyHost['place']>

/** The directories of a policy whose relative paths start from `baseDir`. */
export function policyPlace(
  { sec0Dir, secrets }: HostConfig,
  baseDir: string,
  env?: PluginContext['env'],
): PolicyPlace {
  return { baseDir, stateDir: resolve(baseDir, sec0Dir), secrets, ...defined({ env }) }
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

/** A reload changes the token and the reviewers, but does not open, close or move the listener. */
function changedAdminSettings(running: HostConfig['admin'], next: HostConfig['admin']): string[] {
  if (running === undefined || next === undefined) return running === next ? [] : ['admin']
  const settings = ['port', 'host', 'tls'] as const
  return settings.filter((key) => !isDeepStrictEqual(running[key], next[key])).map((key) => `admin.${key}`)
}
