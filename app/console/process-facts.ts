// The facts that each process of a gateway alone knows about itself. Operators see the facts of all processes together.
import type { LimitInUse } from '@svc/core'
import type { Pipeline } from '@svc/core/pipeline'
import type { RecentCall } from '../metrics/stage-metrics.js'
import type { ProcessState } from '../stdio-targets/server-pool.js'

/** Values survive JSON; null stands for what the process does not know. */
export interface ProcessFacts {
  /** The waits of a recent call, by its span. */
  recentCall(spanId: string): RecentCall | null
  limitsInUse(): readonly LimitInUse[]
  healthParts(): readonly HealthPart[]
  /** The state of a target's processes; null for targets that are not commands, and in workers that do not run them. */
  stateOf(server: string): ProcessState | null
}

/** Asks all processes; null for each that does not respond. */
export type AskProcesses<Facts extends Record<keyof Facts, (...args: never[]) => unknown>> = <
  Name extends keyof Facts,
>(
  name: Name,
  ...args: Parameters<Facts[Name]>
) => Promise<readonly (ReturnType<Facts[Name]> | null)[]>

export interface HealthPart {
  /** The stage, with its store. */
  readonly name: string
  readonly state: 'ok' | 'warning' | 'down'
  readonly reason?: string
}

export function healthParts({ stages }: Pipeline): HealthPart[] {
  return stages.map(({ name, stage }) => {
    const [down, warning] = [stage.ready?.(), stage.warning?.()]
    if (down !== undefined) return { name, state: 'down', reason: down }
    return warning === undefined ? { name, state: 'ok' } : { name, state: 'warning', reason: warning }
  })
}
