// Finds for `svc policy check` what a policy says about the tools of reachable servers: those that it refuses to every
// caller, and patterns that match none, so that they are found before the first call.
import { type ConfigConflict, type PluginContext, policyTokens, resolveOptional } from '@svc/core'
import { patternsOf } from '@svc/core/policy'
import type { Policy } from '../policy/config.js'
import { type ListedTools, refusalsOf } from './tool-access.js'
import { unmatchedPatterns } from './unmatched-patterns.js'

const maxShown = 50

/**
 * Warnings. Servers are asked only if the policy refuses tools by name. Those that cannot be listed are left out, and so
 * are commands, which are not started for a check.
 */
export async function toolWarnings(policy: Policy, context: PluginContext): Promise<ConfigConflict[]> {
  const refuses = resolveOptional(context.container, policyTokens.refusesTools) === true
  if (!refuses && !patternsOf(policy).some(({ path }) => path.includes('denylist'))) return []
  // Imported here, because it loads the code that calls servers.
  const { listHttpTools } = await import('./listed-tools.js')
  const found = await Promise.all(
    Object.entries(policy.host.targets).map(([server, target]) =>
      typeof target === 'string' ? listHttpTools(server, target) : undefined,
    ),
  )
  const listed = found.flatMap((tools) => tools ?? [])
  const refused = listed.map((tools) => (refuses ? refusedTools(tools, policy, context) : []))
  const unmatched = unmatchedPatterns(listed, policy).map(({ path, message }): ConfigConflict => {
    return { path, message, severity: 'warning' }
  })
  return [...(await Promise.all(refused)).flat(), ...unmatched]
}

async function refusedTools(
  tools: ListedTools,
  policy: Policy,
  context: PluginContext,
): Promise<ConfigConflict[]> {
  const refusals = await refusalsOf(tools, policy, context)
  return [...new Set(refusals.map(({ reason }) => reason))].map((reason) => {
    const names = refusals.flatMap((refusal) => (refusal.reason === reason ? [refusal.tool] : []))
    const more = names.length > maxShown ? ` and ${names.length - maxShown} more` : ''
    return {
      path: ['targets', tools.server],
      message: `the server lists tools that are refused with ${reason}: ${names.slice(0, maxShown).join(', ')}${more}`,
      severity: 'warning',
    }
  })
}
