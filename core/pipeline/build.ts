// Builds the pipeline of an effective policy: every plugin registers, then every stage is created, in order.
import type { Slot } from '../call/slot.js'
import type { PluginContext } from '../plugin/plugin.js'
import type { EffectivePolicy } from '../policy/types.js'
import type { Dispatch, PlacedStage } from './compose.js'
import { type CallObserver, joinedObservers } from './observe.js'
import { Pipeline } from './pipeline.js'

/** A stage of the host, directly inside the one that sets the slot. */
export interface InsertedStage extends PlacedStage {
  readonly within: Slot<unknown>
}

interface PipelineParts {
  readonly observers?: readonly CallObserver[]
  readonly inserted?: InsertedStage
}

/** Creates every stage of the policy. Nothing is opened before `start()`. Throws the errors of plugins. */
export function buildPipeline(
  policy: EffectivePolicy<unknown>,
  context: PluginContext,
  dispatch: Dispatch,
  { observers = [], inserted }: PipelineParts = {},
): Pipeline {
  for (const plugin of policy.plugins) plugin.register?.(policy.sections.get(plugin.name), context)
  const stages = policy.plugins.map(
    (plugin): PlacedStage => ({
      name: plugin.name,
      stage: plugin.create(policy.sections.get(plugin.name), context),
    }),
  )
  if (inserted !== undefined) {
    const { within, ...placed } = inserted
    const outer = policy.plugins.findIndex(({ provides = [] }) => provides.includes(within))
    if (outer < 0) throw new Error(`no plugin provides the slot ${within.name}`)
    stages.splice(outer + 1, 0, placed)
  }
  return new Pipeline(stages, dispatch, joinedObservers(observers))
}
