// The cost of each part of a call, with that of the disk and of the relay for comparison.
import { readFile } from 'node:fs/promises'
import { Scene } from './gateway/scene.js'
import { heading, table } from './measure/report.js'
import { spreadOf } from './measure/statistics.js'
import { codecSteps } from './steps/codec.js'
import { httpSteps } from './steps/http.js'
import { logSteps } from './steps/log.js'
import { PipelineProbe } from './steps/pipeline.js'
import type { Step } from './steps/step.js'

export async function measureSteps(disk: string, quick: boolean): Promise<void> {
  heading('CPU of one call, step by step')
  const scene = await Scene.set(disk)
  const probe = new PipelineProbe(await readFile(scene.policyFile, 'utf8'), scene.tokens)
  try {
    await probe.start()
    const subjects = { echo: await scene.echo(), relay: await scene.subject('relay') }
    const rounds: Step[][] = []
    for (let round = 0; round < (quick ? 3 : 5); round++) {
      const stages = await probe.steps()
      if (probe.envelope === undefined) throw new Error('no call was recorded')
      rounds.push([
        ...(await httpSteps(scene, subjects)),
        ...codecSteps(),
        ...stages,
        ...(await logSteps(scene.dir, scene.keyFile, probe.envelope)),
      ])
    }
    report(rounds)
  } finally {
    await probe.stop()
    await scene.end()
  }
}

function report(rounds: readonly (readonly Step[])[]): void {
  const rows = (rounds[0] ?? []).map(({ name }, i) => ({
    name,
    spread: spreadOf(rounds.map((steps) => steps[i]?.micros ?? Number.NaN)),
  }))
  table([
    ['', 'µs', 'min–max'],
    ...rows.map(({ name, spread }) => [
      name,
      spread.median.toFixed(2),
      `${spread.min.toFixed(2)}–${spread.max.toFixed(2)}`,
    ]),
    ['sum', rows.reduce((sum, { spread }) => sum + spread.median, 0).toFixed(1), ''],
  ])
}
