// The facts that a process of a gateway knows about itself, for operators.
import type { LimitInUse } from '@svc/core'
import type { Pipeline } from '@svc/core/pipeline'
import type { ProcessState } from '../stdio/targets/server-pool.js'
import type { RecentCall } from '../telemetry/metrics/stage-metrics.js'

export interface ProcessFacts {
  /** The waits of a recent call, by its span. */
  recentCall(spanId: string): RecentCall | undefined
  limitsInUse(): readonly LimitInUse[]
  healthParts(): readonly HealthPart[]
  /** The state of a target's processes; undefined for targets that are not commands. */
  stateOf(server: string): ProcessState | undefined
}

export interface HealthPart {
  /** The stage, with its store. */
  readonly name: string
  readonly state: 'ok' | 'warning' | 'down'
  readonly reason?: string
}

export function healthParts({ stages }: Pipeline): HealthPart[] {
  return stages.map(({ name, stage }) => {
    const { state = 'ok', reason } = stage.health?.() ?? {}
    return reason === undefined ? { name, state } : { name, state, reason }
  })
}
