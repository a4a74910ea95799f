// The stages of a policy with every store and connection in memory: the pipeline of a gateway that reaches nothing.
import {
  bind,
  bindDefault,
  type Outcome,
  type Plugin,
  policyTokens,
  Resources,
  resolveOptional,
  type Stage,
  services,
  tokens,
} from '@svc/core'
import { type Dispatch, Pipeline, type PlacedStage } from '@svc/core/pipeline'
import { MemoryDedupeStore } from '@svc/plugin-dedupe'
import type { DependencyContainer } from 'tsyringe'
import type { Policy } from '../policy/config.js'
import { pluginContext } from '../policy/plugin-context.js'
import { bindBetweenPlugins } from '../policy/plugins.js'
import type { VirtualClock } from './clock.js'

export interface TestPipeline {
  /** Handles calls as a gateway does. */
  readonly judging: Pipeline
  /** Explains them; the stages that identify the caller handle them. Nothing is counted. */
  explaining(say: (plugin: Plugin, line: string) => void): Pipeline
  readonly container: DependencyContainer
  readonly stages: readonly PlacedStage[]
}

interface Place {
  readonly baseDir: string
  readonly env: Readonly<Record<string, string | undefined>>
}

/** The stages are not started. Throws what a plugin's `create` throws. */
export function testPipeline(policy: Policy, clock: VirtualClock, place: Place): TestPipeline {
  const container = policy.container.createChildContainer()
  const silent = { debug: quiet, info: quiet, warn: quiet, error: quiet }
  bind(container, tokens.Clock, { useValue: clock })
  bind(container, tokens.Ids, { useValue: new CountedIds() })
  bind(container, tokens.Logger, { useValue: silent })
  bind(container, tokens.Meter, { useValue: { count: quiet } })
  bind(container, services.record, { useValue: async () => undefined })
  const context = pluginContext(policy, { container, resources: new Resources(), warn: quiet, ...place })
  const configOf = ({ name }: Plugin) => policy.sections.get(name)
  for (const plugin of policy.plugins) plugin.bindInMemory?.(configOf(plugin), context)
  // Used mandates are kept in such a store even if the policy has no section for idempotency keys.
  bindDefault(container, tokens.DedupeStore, {
    useFactory: () => new MemoryDedupeStore({ now: () => clock.now() }),
  })
  bindBetweenPlugins(container)
  for (const plugin of policy.plugins) plugin.register?.(configOf(plugin), context)
  const created = policy.plugins.map((plugin) => ({
    plugin,
    stage: plugin.create(configOf(plugin), context),
  }))
  const placed = (explains: (plugin: Plugin) => boolean, say: (plugin: Plugin, line: string) => void) =>
    created.map(({ plugin, stage }) => ({
      name: plugin.name,
      stage: explains(plugin) ? explained(stage, (line) => say(plugin, line)) : stage,
    }))
  return {
    judging: new Pipeline(
      placed((plugin) => plugin.bindInMemory === undefined, quiet),
      respond,
    ),
    explaining: (say) =>
      new Pipeline(
        placed(({ phase, bindInMemory }) => phase !== 'authentication' || bindInMemory === undefined, say),
        respond,
      ),
    container,
    stages: created.map(({ plugin, stage }) => ({ name: plugin.name, stage })),
  }
}

/** The parts of the policy that its stages cannot judge without outside systems, one line each. */
export function unjudged(policy: Policy): string[] {
  const custom = policy.plugins.filter(
    ({ name, bindInMemory }) => policy.modules.has(name) && bindInMemory === undefined,
  )
  return [
    ...custom.map(({ name }) => `${name} is explained and does not judge: its plugin has no bindInMemory`),
    ...(resolveOptional(policy.container, policyTokens.asksRuntime) === true
      ? ['the runtime is not asked: the policy itself decides']
      : []),
  ]
}

/** The stage with its explanation in place of its work. */
function explained(stage: Stage, say: (line: string) => void): Stage {
  return { handle: (call, next) => stage.explain?.(call, next, say) ?? next() }
}

/** Takes the place of the server: the holds are committed as before a send, and nothing is sent. */
const respond: Dispatch = async (_call, control): Promise<Outcome> => {
  const refused = await control.commitHolds()
  if (refused !== undefined) return refused
  control.markSent('yes')
  const headers = { 'content-type': 'application/json' }
  return { kind: 'completed', status: 200, headers, body: Buffer.from('{}') }
}

class CountedIds {
  #count = 0

  traceId(): string {
    return (++this.#count).toString(16).padStart(32, '0')
  }

  spanId(): string {
    return (++this.#count).toString(16).padStart(16, '0')
  }
}

const quiet = () => undefined
