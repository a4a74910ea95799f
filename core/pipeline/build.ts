// Builds the pipeline of an effective policy: the tokens of every plugin are bound, then every stage is created, in order.
import { bindForPipeline, type PluginContext } from '../plugin/plugin.js'
import type { EffectivePolicy } from '../policy/types.js'
import type { Dispatch, PlacedStage } from './compose.js'
import { type CallObserver, joinedObservers } from './observe.js'
import { Pipeline } from './pipeline.js'

/** Creates every stage of the policy. Nothing is opened before `start()`. Throws the errors of plugins. */
export function buildPipeline(
  policy: EffectivePolicy<unknown>,
  context: PluginContext,
  dispatch: Dispatch,
  observers: readonly CallObserver[] = [],
): Pipeline {
  for (const plugin of policy.plugins) bindForPipeline(plugin, policy.sections.get(plugin.name), context)
  const stages = policy.plugins.map(
    (plugin): PlacedStage => ({
      name: plugin.name,
      stage: plugin.create(policy.sections.get(plugin.name), context),
    }),
  )
  return new Pipeline(stages, dispatch, joinedObservers(observers))
}
