// Reads policy files for commands: as text, or loaded with its custom plugins and nothing bound in code.
import { dirname, resolve } from 'node:path'
import type { ConfigConflict, PluginContext } from '@svc/core'
import {
  type Diagnostic,
  describeDiagnostic,
  loadPolicy,
  PolicyError,
  type PolicyResult,
  pluginUses,
} from '@svc/core/policy'
import { createContainer } from '../gateway/container.js'
import { importPlugins, modulesOf } from '../gateway/custom-plugins.js'
import { checkHost } from '../policy/check-host.js'
import { type HostConfig, hostSchema } from '../policy/config.js'
import { callersOf, policyHost, policyPlace } from '../policy/facts.js'
import { builtinPlugins, sectionRules } from '../policy/plugins.js'
import { readPolicyText } from '../policy/policy-text.js'
import { processIo } from './io.js'
import 'reflect-metadata'

interface PolicyUse {
  /** Mistakes that were found before. */
  readonly found?: readonly ConfigConflict[]
  /** Whether the policy is for a pipeline in a program, so that it may lack a port and targets. */
  readonly isInProcess?: boolean
  /** In place of the content of the file. */
  readonly text?: string
}

/**
 * A key file that cannot be read is a mistake of the policy if `checksFiles` is true; a policy file that cannot is not
 * judged, and the error is thrown.
 */
export async function loadPolicyFile(
  file: string,
  env: NonNullable<PluginContext['env']>,
  checksFiles: boolean,
  { found = [], isInProcess = false, text = readPolicyText(file) }: PolicyUse = {},
): Promise<PolicyResult<HostConfig>> {
  const ofProgram = { file: 'options', object: { port: 0, targets: {} } }
  const layers = [...(isInProcess ? [ofProgram] : []), { file, text }]
  const callers = (host: HostConfig) => (isInProcess ? ('program' as const) : callersOf(host))
  const baseDir = baseDirOf(file)
  const placeIn = (host: HostConfig) => (checksFiles ? policyPlace(host, baseDir, env) : undefined)
  return loadPolicy({
    layers,
    host: hostSchema,
    policyHost: (host) => policyHost(host, placeIn(host), callers(host)),
    checkHost: (host) => [...checkHost(host, placeIn(host), callers(host)), ...found],
    plugins: builtinPlugins,
    ...sectionRules,
    bindings: createContainer(),
    custom: await importPlugins(modulesOf(pluginUses({ layers, env }), builtinPlugins), baseDir),
    env,
  })
}

/** The base of the relative paths of a policy file. */
export function baseDirOf(file: string): string {
  return dirname(resolve(file))
}

/** The mistakes, then the warnings. */
export function diagnosticsOf(result: PolicyResult<HostConfig>): Diagnostic[] {
  return result.ok ? [...result.policy.warnings] : [...result.mistakes, ...result.warnings]
}

/** Prints the mistakes of a policy, one a line. Throws any other error. */
export function reportStart(error: unknown, io = processIo()): void {
  if (!(error instanceof PolicyError)) throw error
  for (const mistake of error.mistakes) io.err(`${describeDiagnostic(mistake)}\n`)
  io.exit(1)
}
