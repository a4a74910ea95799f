// The time from `svc gateway --policy FILE` in the shell to its `listening` line.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { Scene } from './gateway/scene.js'
import { figure, heading, print } from './measure/report.js'
import { spreadOf } from './measure/statistics.js'

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

async function listening(policyFile: string): Promise<number> {
  const svc = fileURLToPath(new URL('../../app/bin/svc.js', import.meta.url))
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

async function bareNode(): Promise<number> {
  const start = performance.now()
  await once(spawn(process.execPath, ['-e', '0'], { stdio: 'ignore' }), 'exit')
  return performance.now() - start
}
