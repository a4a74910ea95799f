// Finds the log and the admin listener of a gateway by its policy file, for commands that are given `--policy`.
import { type EffectivePolicy, formatDiagnostic } from '@svc/core/policy'
import { auditSchema, logDirectory } from '@svc/plugin-audit'
import { z } from 'zod'
import type { AdminConfig } from '../policy/admin-config.js'
import type { HostConfig } from '../policy/config.js'
import { policyPlace } from '../policy/facts.js'
import type { Environment } from './io.js'
import { baseDirOf, loadPolicyFile } from './policy-file.js'

const { dir } = auditSchema.shape
const logSchema = z.object({ dir })

interface PolicyGateway {
  /** The base of relative paths of the policy. */
  readonly baseDir: string
  readonly logDir: string
  readonly admin: AdminConfig | undefined
}

/** Rejects for a policy with mistakes, naming the first. */
export async function gatewayOf(file: string, env: Environment): Promise<PolicyGateway> {
  const result = await loadPolicyFile(file, env, false)
  if (!result.ok) throw new Error(result.mistakes.slice(0, 1).map(formatDiagnostic).join(''))
  return placesOf(result.policy, baseDirOf(file))
}

export function placesOf(
  { host, sections }: Pick<EffectivePolicy<HostConfig>, 'host' | 'sections'>,
  baseDir: string,
): PolicyGateway {
  const log = logSchema.parse(sections.get('audit'))
  return {
    baseDir,
    logDir: logDirectory(log, policyPlace(host, baseDir)),
    admin: host.admin,
  }
}

type Listener = Pick<AdminConfig, 'host' | 'port' | 'tls'>

/** The URL of the admin listener for commands on its machine. @throws {Error} if the policy does not state it */
export function adminUrlOf(file: string, admin: Listener | undefined): string {
  if (admin === undefined) throw new Error(`${file}: no section admin, so the gateway has no admin listener`)
  const { port, tls } = admin
  if (port === 0)
    throw new Error(`${file}: admin.port is 0; give --admin with the URL that the gateway printed`)
  const host = allAddresses.get(admin.host) ?? admin.host
  return `${tls === undefined ? 'http' : 'https'}://${host.includes(':') ? `[${host}]` : host}:${port}`
}

/** Listening on all addresses includes this machine's loopback. */
const allAddresses: ReadonlyMap<string, string> = new Map([
  ['0.0.0.0', '127.0.0.1'],
  ['::', '::1'],
])
