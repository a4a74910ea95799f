// Where the last calls of this process waited, and what their callers were told: a bounded number, in memory alone.
import { type Call, redactor } from '@svc/core'
import type { CallObserver } from '@svc/core/pipeline'

const MAX_CALLS = 1000
/** Of one call, which may repeat its request without end. */
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

export class RecentCalls implements CallObserver {
  /** By span id; the oldest first. */
  #calls = new Map<string, RecentCall>()

  began(call: Call): void {
    if (this.#calls.size >= MAX_CALLS) {
      for (const oldest of this.#calls.keys()) {
        this.#calls.delete(oldest)
        break
      }
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
    const kept = this.#calls.get(call.trace.spanId)
    if (kept === undefined || kept.waits.length >= MAX_WAITS) return
    kept.waits.push({ stage, from: from - kept.began, to: to - kept.began })
  }

  find(spanId: string): RecentCall | undefined {
    return this.#calls.get(spanId)
  }
}
