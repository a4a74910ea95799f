// Reads policy files for commands: as text, or loaded with its custom plugins and nothing bound in code.
import { readFileSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { dirname, resolve } from 'node:path'
import type { ConfigConflict, PluginContext } from '@svc/core'
import { messageOf } from '@svc/core/json'
import { type Diagnostic, loadPolicy, type PolicyResult, pluginUses } from '@svc/core/policy'
import { importPlugins } from '../gateway/custom-plugins.js'
import { builtinPlugins } from '../gateway/plugins.js'
import { checkHost } from '../policy/check-host.js'
import { type HostConfig, hostSchema } from '../policy/config.js'
import { hostFacts, placeOf } from '../policy/facts.js'

/**
 * A file that cannot be read is a mistake of the policy; so is a key file where `checksFiles` is true. `found` is what else
 * is wrong with it.
 */
export async function loadPolicyFile(
  file: string,
  env: NonNullable<PluginContext['env']>,
  checksFiles: boolean,
  found: readonly ConfigConflict[] = [],
): Promise<PolicyResult<HostConfig>> {
  let text: string
  try {
    text = await readFile(file, 'utf8')
  } catch (fault) {
    const message = `cannot be read: ${messageOf(fault)}`
    return { ok: false, mistakes: [{ severity: 'mistake', file, path: '', message }], warnings: [] }
  }
  const layers = [{ file, text }]
  const baseDir = baseDirOf(file)
  return loadPolicy({
    layers,
    host: hostSchema,
    hostFacts: (host) => ({
      ...hostFacts(host),
      ...(checksFiles ? { place: placeOf(host, baseDir, env) } : {}),
    }),
    checkHost: (host, facts) => [...checkHost(host, facts), ...found],
    plugins: builtinPlugins,
    custom: await importPlugins(pluginUses({ layers, env }), builtinPlugins, baseDir),
    env,
  })
}

/** Where the relative paths of a policy file start. */
export function baseDirOf(file: string): string {
  return dirname(resolve(file))
}

/** The mistakes, then the warnings. */
export function diagnosticsOf(result: PolicyResult<HostConfig>): Diagnostic[] {
  return result.ok ? [...result.policy.warnings] : [...result.mistakes, ...result.warnings]
}

/** The text of the policy of a process. Throws an error with the reason. */
export function policyText(file: string): string {
  try {
    return readFileSync(file, 'utf8')
  } catch (cause) {
    throw new Error(`${file}: the policy cannot be read: ${messageOf(cause)}`, { cause })
  }
}
