// `svc gateway` with a number of workers, in a process of its own: tells the CPU time of all its processes, and pins them.
import { execFileSync, spawn } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { createInterface } from 'node:readline'
import { respondToParent } from '../measure/child.js'

/** Microseconds; Linux counts the CPU time of processes in hundredths of a second. */
const TICK = 10_000

const [policyFile = '', workers = ''] = process.argv.slice(2)
const svc = join(dirname(createRequire(import.meta.url).resolve('svc-sdk/package.json')), 'bin/svc.js')
const args = [svc, 'gateway', '--policy', policyFile, '--workers', workers]
const gateway = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] })
process.prependListener('disconnect', () => {
  // The supervisor first, which would replace its workers.
  for (const pid of processes()) process.kill(pid, 'SIGKILL')
})

for await (const line of createInterface(gateway.stdout)) {
  const { msg, url } = JSON.parse(line) as { msg: string; url?: string }
  if (msg !== 'listening' || url === undefined) continue
  respondToParent(Number(new URL(url).port), {
    cpu: () => processes().reduce((sum, pid) => sum + statOf(pid).ticks * TICK, 0),
    pin: (cores) => {
      for (const pid of processes())
        execFileSync('taskset', ['--all-tasks', '--cpu-list', '--pid', cores, String(pid)], {
          stdio: 'ignore',
        })
    },
  })
}

/** The gateway's processes, the supervisor first. */
function processes(): number[] {
  const main = gateway.pid ?? 0
  const all = readdirSync('/proc').filter((name) => /^\d+$/.test(name))
  return [main, ...all.map(Number).filter((pid) => statOf(pid).parent === main)]
}

/** The parent of a process, and its CPU time in ticks. */
function statOf(pid: number): { parent: number; ticks: number } {
  try {
    // The name of the program, in brackets, may contain spaces.
    const fields = readFileSync(`/proc/${pid}/stat`, 'utf8')
      .replace(/^.*\) /s, '')
      .split(' ')
    return { parent: Number(fields[1]), ticks: Number(fields[11]) + Number(fields[12]) }
  } catch (error) {
    // It has ended meanwhile.
    if (error instanceof Error && 'code' in error) return { parent: 0, ticks: 0 }
    throw error
  }
}
