// Measures in which stage calls wait, and how long for the upstream: as histograms, and for a limited number of the last calls
// of this process one by one, in memory alone, with what their callers were told.
import { type Call, redactor } from '@svc/core'
import type { CallObserver } from '@svc/core/pipeline'
import type { Registry } from 'prom-client'
import { DurationHistogram } from './duration-histogram.js'
import { ownMetrics } from './metric-table.js'

/** Stages are those of the policy; each reload may bring new ones. */
const maxStages = 200

export class StageMetrics implements CallObserver {
  readonly recent = new RecentCalls()
  #waits: DurationHistogram

  constructor(registry: Registry) {
    const name = 'svc_stage_wait_seconds'
    this.#waits = new DurationHistogram(name, ownMetrics[name], registry)
  }

  began(call: Call): void {
    this.recent.began(call)
  }

  waited(call: Call, name: string, from: number, to: number): void {
    this.recent.waited(call, name, from, to)
    const stage = this.#waits.has(name) || this.#waits.size < maxStages ? name : 'other'
    this.#waits.of(stage).add((to - from) / 1000)
  }
}

/** Calls of a generation: at least this number is kept, and at most twice as many. */
const MAX_CALLS = 1000
/** Waits of one call, because a call may repeat its request without end. */
const MAX_WAITS = 50
const MAX_MESSAGE = 1000

interface StageWait {
  readonly stage: string
  /** Milliseconds after the first stage began. */
  readonly from: number
  readonly to: number
}

export interface RecentCall {
  readonly began: number
  readonly waits: StageWait[]
  /** Absent for a call that has not settled, and for one whose response is that of its server. */
  told?: string
}

class RecentCalls implements CallObserver {
  /** By span id. Two generations: to delete the oldest of one map costs more than all else here. */
  #calls = new Map<string, RecentCall>()
  #older: ReadonlyMap<string, RecentCall> = new Map()

  began(call: Call): void {
    if (this.#calls.size >= MAX_CALLS) {
      this.#older = this.#calls
      this.#calls = new Map()
    }
    const kept: RecentCall = { began: performance.now(), waits: [] }
    this.#calls.set(call.trace.spanId, kept)
    call.onSettle(({ outcome }) => {
      if (outcome.kind === 'completed') return
      const message = outcome.message.slice(0, MAX_MESSAGE)
      kept.told = call.get(redactor)?.text(message) ?? message
    })
  }

  waited(call: Call, stage: string, from: number, to: number): void {
    const kept = this.find(call.trace.spanId)
    if (kept === undefined || kept.waits.length >= MAX_WAITS) return
    kept.waits.push({ stage, from: from - kept.began, to: to - kept.began })
  }

  find(spanId: string): RecentCall | undefined {
    return this.#calls.get(spanId) ?? this.#older.get(spanId)
  }
}
