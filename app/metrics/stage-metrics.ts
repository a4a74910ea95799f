// Where calls wait: in which stage, and for the upstream.
import type { CallObserver } from '@svc/core/pipeline'
import type { Registry } from 'prom-client'
import { DurationHistogram } from './duration-histogram.js'
import { ownMetrics } from './metric-table.js'

/** Stages are those of the policy; each reload may bring new ones. */
const maxStages = 200

export class StageMetrics implements CallObserver {
  #waits: DurationHistogram

  constructor(registry: Registry) {
    const name = 'svc_stage_wait_seconds'
    this.#waits = new DurationHistogram(name, ownMetrics[name], registry)
  }

  began(): void {
    // The calls have metrics of their own.
  }

  waited(_call: unknown, name: string, from: number, to: number): void {
    const stage = this.#waits.size < maxStages ? name : 'other'
    this.#waits.of(stage).add((to - from) / 1000)
  }
}
