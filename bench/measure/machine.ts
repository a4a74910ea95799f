// The machine on which results were measured.
import { execFileSync } from 'node:child_process'
import { readFileSync, statfsSync } from 'node:fs'
import { availableParallelism, cpus, loadavg, release, totalmem } from 'node:os'
import { print } from './report.js'

const TMPFS = 0x01021994

export function machineLine(): string {
  const cores = availableParallelism()
  const memory = Math.round(totalmem() / 2 ** 30)
  const load = loadavg()[0]?.toFixed(1)
  return `${cpus()[0]?.model.trim()}, ${cores} cores, ${memory} GiB, Linux ${release()}, Node ${process.version}, load ${load}`
}

/** Type and device of the file system that holds `dir`; throws for a file system in memory, which is not durable. */
export function diskLine(dir: string): string {
  if (statfsSync(dir).type === TMPFS)
    throw new Error(`${dir} is a tmpfs: name a directory on a disk with --dir`)
  const mounts = readFileSync('/proc/self/mounts', 'utf8')
    .trim()
    .split('\n')
    .map((line) => line.split(' '))
    .filter(([, point = '']) => dir === point || dir.startsWith(point === '/' ? '/' : `${point}/`))
    .sort(([, a = ''], [, b = '']) => a.length - b.length)
  const [device, , type] = mounts.at(-1) ?? []
  return `${type} on ${device}`
}

/** Whether processes can be pinned to cores. */
export function canPin(): boolean {
  if (availableParallelism() < 2) return false
  try {
    execFileSync('taskset', ['-c', '0', 'true'], { stdio: 'ignore' })
    return true
  } catch (error) {
    print(`taskset does not work here (${(error as Error).message}): nothing is pinned`)
    return false
  }
}
