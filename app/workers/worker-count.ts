// The number of workers: as given, or as many as the cores that this process may use.
import { readFileSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { join, posix } from 'node:path'

/** Whole cores that this process may use: those of its affinity, and of the quotas of its control group. */
export function availableCores(
  parallelism = availableParallelism(),
  read: (path: string) => string | undefined = readIfThere,
): number {
  const quotas = controlGroups(read).flatMap(quotasOf(read))
  return Math.max(1, Math.floor(Math.min(parallelism, ...quotas)))
}

interface ControlGroup {
  /** The directory at which the hierarchy is mounted. */
  readonly mount: string
  readonly path: string
  readonly version: 1 | 2
}

/** The control group of this process in version 2, and in the hierarchy `cpu` of version 1 (cgroups(7)). */
function controlGroups(read: (path: string) => string | undefined): ControlGroup[] {
  const lines = (read('/proc/self/cgroup') ?? '').split('\n')
  return lines.flatMap((line): ControlGroup[] => {
    const [, controllers = '', path = ''] = /^\d+:([^:]*):(.*)$/.exec(line) ?? []
    if (path === '') return []
    if (controllers === '') return [{ mount: '/sys/fs/cgroup', path, version: 2 }]
    const isCpu = controllers.split(',').includes('cpu')
    return isCpu ? [{ mount: `/sys/fs/cgroup/${controllers}`, path, version: 1 }] : []
  })
}

/** The quotas of a group and of all above it, in cores. In a container the path may be outside of what is mounted. */
function quotasOf(read: (path: string) => string | undefined) {
  return ({ mount, path, version }: ControlGroup): number[] => {
    const found: number[] = []
    for (let at = posix.normalize(path); ; at = posix.dirname(at)) {
      const texts =
        version === 2
          ? (read(join(mount, at, 'cpu.max')) ?? '').split(' ')
          : ['cpu.cfs_quota_us', 'cpu.cfs_period_us'].map((name) => read(join(mount, at, name)) ?? '')
      const [quota = 0, period = 0] = texts.map(Number)
      // No quota is "max" in version 2, and -1 in version 1.
      if (quota > 0 && period > 0) found.push(quota / period)
      if (at === posix.dirname(at)) return found
    }
  }
}

function readIfThere(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8').trim()
  } catch (error) {
    if (error instanceof Error && 'code' in error) return undefined
    throw error
  }
}
