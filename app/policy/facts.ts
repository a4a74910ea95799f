// Facts of the host's part of a policy for plugins, when it is checked and when stages are created.
import { resolve } from 'node:path'
import type { PluginContext, PolicyFacts } from '@svc/core'
import { stdioTargetsOf } from '../stdio-targets/config.js'
import type { HostConfig } from './config.js'

/** Without an admin listener there are no reviewers; without targets, as in a program of one's own, servers are not known. */
export function hostFacts({ admin, targets, tenant }: HostConfig): PolicyFacts {
  const names = Object.keys(targets)
  const serversWithoutHeaders = [...stdioTargetsOf(targets).values()].map(({ server }) => server)
  const known = { tenant, ...(names.length === 0 ? {} : { servers: names, serversWithoutHeaders }) }
  if (admin === undefined) return known
  const { reviewer_roles: roles, approval_sets: approvalSets } = admin
  return { ...known, reviewers: { ...(roles === undefined ? {} : { roles }), approvalSets } }
}

/** The directories of a policy whose relative paths start from `baseDir`. */
export function placeOf(
  { sec0Dir }: HostConfig,
  baseDir: string,
  env?: PluginContext['env'],
): NonNullable<PolicyFacts['place']> {
  return { baseDir, stateDir: resolve(baseDir, sec0Dir), ...(env === undefined ? {} : { env }) }
}
