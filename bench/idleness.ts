// What a call costs before and after idleness. With the first collection after it, V8 gives nearly all of its space for new
// objects back to the system: until that has grown again, its pages fault and there are more collections.
import type { LoadJob } from './gateway/load-job.js'
import { requestsFor } from './gateway/requests.js'
import { Scene } from './gateway/scene.js'
import type { Child } from './measure/child.js'
import { heading, print, table } from './measure/report.js'
import { spreadOf } from './measure/statistics.js'

const IDLE_MS = 62_000
const WARM_UP_CALLS = 12_000
const PER_SECOND = 200
const CALLS = 100
const WINDOWS_BEFORE = 4
const WINDOWS_AFTER = 3
/** With these V8 keeps the space. It reads them only when the process starts. */
const KEEPING = ['--min-semi-space-size=16', '--no-memory-reducer']

interface Window {
  /** Microseconds of CPU of a call. */
  readonly cpu: number
  /** Page faults of a call. */
  readonly faults: number
}

interface Subject {
  readonly name: string
  readonly child: Child
  readonly before: Window[]
  readonly after: Window[]
}

export async function measureIdleness(disk: string, quick: boolean): Promise<unknown> {
  heading(`A call after ${IDLE_MS / 1000} s of idleness, ${PER_SECOND} calls a second`)
  const scene = await Scene.set(disk)
  try {
    const subjects = [
      subjectOf('node:http alone', await scene.echo()),
      subjectOf('relay', await scene.subject('relay')),
      subjectOf('gateway', await scene.subject('gateway')),
      subjectOf(`gateway, ${KEEPING.join(' ')}`, await scene.subject('gateway', { execArgv: KEEPING })),
    ]
    for (const { child } of subjects)
      await load(scene, child, { connections: 16, until: { calls: WARM_UP_CALLS } })
    for (let round = 0; round < (quick ? 1 : 3); round++) {
      await inTurn(scene, subjects, WINDOWS_BEFORE, ({ before }) => before)
      await new Promise((resolve) => setTimeout(resolve, IDLE_MS))
      await inTurn(scene, subjects, WINDOWS_AFTER, ({ after }) => after)
    }
    table([
      ['', 'CPU µs before', 'after', 'page faults before', 'after'],
      ...subjects.map(({ name, before, after }) => [
        name,
        ...medians([before, after], 'cpu'),
        ...medians([before, after], 'faults'),
      ]),
    ])
    print(`  medians of windows of ${CALLS} calls; after: the first ${WINDOWS_AFTER * CALLS} calls`)
    return Object.fromEntries(subjects.map(({ name, before, after }) => [name, { before, after }]))
  } finally {
    await scene.end()
  }
}

function medians(phases: readonly (readonly Window[])[], of: keyof Window): string[] {
  return phases.map((windows) => spreadOf(windows.map((window) => window[of])).median.toFixed(1))
}

function subjectOf(name: string, child: Child): Subject {
  return { name, child, before: [], after: [] }
}

/** The windows alternate, so that no subject is idle while another is measured. */
async function inTurn(
  scene: Scene,
  subjects: readonly Subject[],
  windows: number,
  into: (subject: Subject) => Window[],
): Promise<void> {
  for (let i = 0; i < windows; i++) {
    for (const subject of subjects) into(subject).push(await windowOf(scene, subject.child))
  }
}

async function windowOf(scene: Scene, child: Child): Promise<Window> {
  const [cpu, faults] = [await child.ask('cpu'), await child.ask('faults')]
  await load(scene, child, { connections: 4, until: { calls: CALLS }, perSecond: PER_SECOND })
  const [cpuAfter, faultsAfter] = [await child.ask('cpu'), await child.ask('faults')]
  return { cpu: (cpuAfter - cpu) / CALLS, faults: (faultsAfter - faults) / CALLS }
}

async function load(
  { load, tokens }: Scene,
  { port }: Child,
  job: Pick<LoadJob, 'connections' | 'until' | 'perSecond'>,
): Promise<void> {
  await load.ask('load', { ...job, port, requests: requestsFor(port, tokens) })
}
