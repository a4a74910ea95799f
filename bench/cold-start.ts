// The time from `svc gateway --policy FILE` in the shell to its `listening` line.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { tmpdir } from 'node:os'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { Scene } from './gateway/scene.js'
import { figure, heading, print } from './measure/report.js'
import { spreadOf } from './measure/statistics.js'

const svc = fileURLToPath(new URL('../../app/bin/svc.js', import.meta.url))
const RUNS = 7
const TARGET_MS = 400

/** Milliseconds of each run. */
export async function measureColdStart(disk: string): Promise<Record<'bare' | 'times', number[]>> {
  heading('Cold start')
  const scene = await Scene.set(disk)
  try {
    const bare: number[] = []
    const times: number[] = []
    const policyFile = await scene.policyFile()
    for (let run = 0; run < RUNS; run++) {
      bare.push(await bareNode())
      times.push(await listening(policyFile))
    }
    print(`  svc gateway to "listening": ${figure(spreadOf(times), 0)} ms, target under ${TARGET_MS} ms`)
    print(`  of which an empty Node process takes ${figure(spreadOf(bare), 0)} ms`)
    return { bare, times }
  } finally {
    await scene.end()
  }
}

/** The time of an empty process over that of a command that prints and ends: the median of pairs. */
export function commandRatio(args: readonly string[]): Promise<number> {
  return medianRatio(() => ended([svc, ...args]))
}

/** As `commandRatio`, of a command with a policy file at the end of its arguments. */
export async function policyRatio(args: readonly string[]): Promise<number> {
  const scene = await Scene.set(tmpdir())
  try {
    const file = await scene.policyFile()
    return await (args[0] === 'gateway' ? medianRatio(() => listening(file)) : commandRatio([...args, file]))
  } finally {
    await scene.end()
  }
}

async function medianRatio(measure: () => Promise<number>): Promise<number> {
  const ratios: number[] = []
  for (let run = 0; run < RUNS; run++) ratios.push((await bareNode()) / (await measure()))
  return spreadOf(ratios).median
}

async function listening(policyFile: string): Promise<number> {
  const start = performance.now()
  const child = spawn(process.execPath, [svc, 'gateway', '--policy', policyFile], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const gone = once(child, 'exit')
  let took: number | undefined
  for await (const line of createInterface({ input: child.stdout })) {
    if (took === undefined && line.includes('"msg":"listening"')) {
      took = performance.now() - start
      child.kill('SIGTERM')
    }
  }
  const [code] = await gone
  if (took === undefined || code !== 0) throw new Error(`svc gateway ended with exit code ${code}`)
  return took
}

function bareNode(): Promise<number> {
  return ended(['-e', '0'])
}

async function ended(args: readonly string[]): Promise<number> {
  const start = performance.now()
  const [code] = await once(spawn(process.execPath, args, { stdio: ['ignore', 'ignore', 'inherit'] }), 'exit')
  if (code !== 0) throw new Error(`${args.join(' ')} ended with exit code ${code}`)
  return performance.now() - start
}
