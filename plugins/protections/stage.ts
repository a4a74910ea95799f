// Runs the stages of the protections, one inside the other. An error of one passes through the others.
import {
  type Call,
  type MaybePromise,
  type Next,
  type Outcome,
  recordedCall,
  type Stage,
  Unrecorded,
} from '@svc/core'

export class ProtectionsStage implements Stage {
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

  ready(): string | undefined {
    return joined(this.#stages.map((stage) => stage.ready?.()))
  }

  warning(): string | undefined {
    return joined(this.#stages.map((stage) => stage.warning?.()))
  }

  handle(call: Call, next: Next): MaybePromise<Outcome> {
    // Protections judge by what they have seen of servers and callers, and by whole messages.
    if (call.get(recordedCall) !== undefined) throw new Unrecorded(['what protections had seen'])
    return this.#stages.reduceRight<Next>((inner, stage) => () => stage.handle(call, inner), next)()
  }
}

function joined(lines: readonly (string | undefined)[]): string | undefined {
  const present = lines.filter((line) => line !== undefined)
  return present.length === 0 ? undefined : present.join('; ')
}
