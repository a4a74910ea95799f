// Composes the protections that the section turns on into one stage.
import {
  type Call,
  declareMetrics,
  definePlugin,
  type MaybePromise,
  type Next,
  type Outcome,
  recordedCall,
  type Stage,
  type StageHealth,
  Unrecorded,
} from '@svc/core'
import { configuredProtections, conflictsOf, protections, protectionsSchema } from './config.js'

const all = Object.values(protections)

export const protectionsPlugin = definePlugin({
  name: 'protections',
  version: '1.0.0',
  core: '^1.0.0',
  schema: protectionsSchema,
  phase: 'inspection',
  uses: [...new Set(all.flatMap(({ uses = [] }) => uses))],
  provides: [...new Set(all.flatMap(({ provides = [] }) => provides))],
  owns: all.flatMap(({ owns = [] }) => owns),
  reasons: all.flatMap(({ reasons = [] }) => reasons),
  check: (config, bindings) => [
    ...conflictsOf(config),
    ...configuredProtections(config).flatMap((one) => one.check?.(bindings) ?? []),
  ],
  create(config, context) {
    for (const { metrics = {} } of all) declareMetrics(context.container, metrics)
    return new ProtectionsStage(configuredProtections(config).map((one) => one.create(context)))
  },
})

/** Runs the stages of the protections, one inside the other. An error of one passes through the others. */
export class ProtectionsStage implements Stage {
  readonly effects = 'stores'
  #stages: readonly Stage[]

  constructor(stages: readonly Stage[]) {
    this.#stages = stages
  }

  /** From the innermost outward. If one fails, the pipeline stops this stage, and by it all. */
  async start(signal: AbortSignal): Promise<void> {
    for (const stage of [...this.#stages].reverse()) await stage.start?.(signal)
  }

  async stop(): Promise<void> {
    const results = await Promise.allSettled(this.#stages.map((stage) => stage.stop?.()))
    const errors = results.flatMap((result) => (result.status === 'rejected' ? [result.reason] : []))
    if (errors.length > 0) throw new AggregateError(errors, 'protections did not stop')
  }

  health(): StageHealth | undefined {
    const problems = this.#stages.flatMap((stage) => stage.health?.() ?? [])
    const state = problems.some((one) => one.state === 'down') ? 'down' : 'warning'
    const reasons = problems.filter((one) => one.state === state).map(({ reason }) => reason)
    return reasons.length === 0 ? undefined : { state, reason: reasons.join('; ') }
  }

  handle(call: Call, next: Next): MaybePromise<Outcome> {
    // Protections judge by what they have seen of servers and callers, and by whole messages.
    if (call.get(recordedCall) !== undefined) throw new Unrecorded(['what protections had seen'])
    return this.#stages.reduceRight<Next>((inner, stage) => () => stage.handle(call, inner), next)()
  }
}
