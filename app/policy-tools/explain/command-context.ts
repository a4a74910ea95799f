// The context in which the plugins of a policy explain their stages without starting them.
import { bind, bindForPipeline, type PluginContext, Resources, tokens } from '@svc/core'
import type { EffectivePolicy } from '@svc/core/policy'
import type { HostConfig } from '../../policy/config.js'
import { pluginContext } from '../../policy/plugin-context.js'

/** A new container, with the tokens of every plugin of the policy bound. */
export function commandContext(
  policy: EffectivePolicy<HostConfig>,
  place: Pick<PluginContext, 'baseDir' | 'env' | 'warn'>,
): PluginContext {
  const container = policy.container.createChildContainer()
  const silent = { debug: quiet, info: quiet, warn: quiet, error: quiet }
  bind(container, tokens.Clock, { useValue: { now: () => Date.now(), monotonic: () => performance.now() } })
  bind(container, tokens.Ids, { useValue: { traceId: () => '0'.repeat(32), spanId: () => '0'.repeat(16) } })
  bind(container, tokens.Logger, { useValue: silent })
  bind(container, tokens.Meter, { useValue: { count: quiet } })
  const context = pluginContext(policy, { container, resources: new Resources(), ...place })
  for (const plugin of policy.plugins) bindForPipeline(plugin, policy.sections.get(plugin.name), context)
  return context
}

const quiet = () => undefined
