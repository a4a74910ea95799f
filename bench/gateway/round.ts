// One round of load on a subject, and ratios of the rounds of two.
import type { Child } from '../measure/child.js'
import { type Spread, spreadOf } from '../measure/statistics.js'
import type { LoadJob } from './load-job.js'
import type { Scene } from './scene.js'

/** A process and what it is asked. */
export interface Subject {
  readonly name: string
  readonly child: Child
  readonly requests: readonly string[]
}

export interface Round {
  readonly callsPerSecond: number
  readonly cpuPerCall: number
  /** CPU time over the time that passed; 1 is a core. */
  readonly busy: number
  readonly p50: number
  readonly p99: number
}

/** The rounds of each subject. */
export type Rounds = Readonly<Record<string, readonly Round[]>>

type Job = Pick<LoadJob, 'connections' | 'until' | 'perSecond'>

export async function measureRound({ load }: Scene, { child, requests }: Subject, job: Job): Promise<Round> {
  const { port } = child
  const before = await child.ask('cpu')
  const { calls, seconds, p50, p99 } = await load.ask('load', { ...job, port, requests })
  const cpu = (await child.ask('cpu')) - before
  return { callsPerSecond: calls / seconds, cpuPerCall: cpu / calls, busy: cpu / 1e6 / seconds, p50, p99 }
}

/** Rounds of all subjects alternate, so that other load of the machine affects all of them. */
export async function alternate(
  scene: Scene,
  subjects: readonly Subject[],
  count: number,
  job: Job,
): Promise<Rounds> {
  const rounds: Record<string, Round[]> = {}
  for (let round = 0; round < count; round++) {
    for (const subject of subjects) {
      const measured = await measureRound(scene, subject, job)
      rounds[subject.name] = [...(rounds[subject.name] ?? []), measured]
    }
  }
  return rounds
}

/** Ratios over pairs of neighbouring rounds. */
export function compared(
  rounds: Rounds,
  [one, other]: readonly [string, string],
  compare: (one: Round, other: Round) => number,
): Spread {
  const others = rounds[other] ?? []
  return spreadOf(
    (rounds[one] ?? []).flatMap((round, i) => {
      const paired = others[i]
      return paired === undefined ? [] : [compare(round, paired)]
    }),
  )
}
