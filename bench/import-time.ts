// The import time of the library for a program that only signs and writes records.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { figure, heading, print, table } from './measure/report.js'
import { spreadOf } from './measure/statistics.js'

const RUNS = 11
const MAX_RATIO = 6
const EMPTY = 'an empty module'
const SOURCES: Readonly<Record<string, string>> = {
  [EMPTY]: '',
  'svc-sdk/audit': "import 'svc-sdk/audit'",
  'svc-sdk/signer': "import 'svc-sdk/signer'",
}

/** Milliseconds of each run, by what it imports. */
export async function measureImportTime(): Promise<Record<string, number[]>> {
  heading('Import time')
  const times = new Map(Object.keys(SOURCES).map((name) => [name, [] as number[]]))
  // Alternating, so that other load of the machine affects all of them.
  for (let run = 0; run < RUNS; run++) {
    for (const [name, source] of Object.entries(SOURCES)) times.get(name)?.push(await runTime(source))
  }
  const empty = spreadOf(times.get(EMPTY) ?? []).median
  table([
    ['process that imports', 'ms', 'ratio'],
    ...[...times].map(([name, taken]) => {
      const spread = spreadOf(taken)
      return [name, figure(spread, 0), (spread.median / empty).toFixed(2)]
    }),
  ])
  print(`  target: at most ${MAX_RATIO} times ${EMPTY}`)
  return Object.fromEntries(times)
}

/** The time of an empty process over that of one that imports `svc-sdk/audit`: the median of five pairs. */
export async function importRatio(): Promise<number> {
  const ratios: number[] = []
  for (let run = 0; run < 5; run++) {
    const empty = await runTime('')
    ratios.push(empty / (await runTime("import 'svc-sdk/audit'")))
  }
  return spreadOf(ratios).median
}

/** Milliseconds from start to end of a process that evaluates `source`. */
async function runTime(source: string): Promise<number> {
  const start = performance.now()
  const child = spawn(process.execPath, ['--input-type=module', '-e', source], {
    stdio: ['ignore', 'ignore', 'inherit'],
    cwd: fileURLToPath(new URL('..', import.meta.url)),
  })
  const [code] = await once(child, 'exit')
  if (code !== 0) throw new Error(`${source} ended with exit code ${code}`)
  return performance.now() - start
}
