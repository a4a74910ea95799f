import { expect } from 'chai'
import { availableCores } from 'svc-sdk/internal/workers/worker-count'

const v2 = '/sys/fs/cgroup'
const v1 = '/sys/fs/cgroup/cpu,cpuacct'

/** The files of a machine, and the cores that a process may use on it. */
const rows: readonly (readonly [what: string, files: Record<string, string>, cores: number])[] = [
  ['no control groups', {}, 8],
  ['version 2 without a quota', { '/proc/self/cgroup': '0::/a', [`${v2}/a/cpu.max`]: 'max 100000' }, 8],
  ['version 2 with a quota', { '/proc/self/cgroup': '0::/a/b', [`${v2}/a/b/cpu.max`]: '350000 100000' }, 3],
  [
    'version 2 with a quota of the group above',
    {
      '/proc/self/cgroup': '0::/a/b',
      [`${v2}/a/cpu.max`]: '200000 100000',
      [`${v2}/a/b/cpu.max`]: 'max 100000',
    },
    2,
  ],
  ['version 2 in a container', { '/proc/self/cgroup': '0::/', [`${v2}/cpu.max`]: '400000 100000' }, 4],
  ['less than one core', { '/proc/self/cgroup': '0::/', [`${v2}/cpu.max`]: '50000 100000' }, 1],
  [
    'version 1',
    {
      '/proc/self/cgroup': '5:memory:/x\n4:cpu,cpuacct:/docker/1',
      [`${v1}/docker/1/cpu.cfs_quota_us`]: '250000',
      [`${v1}/docker/1/cpu.cfs_period_us`]: '100000',
    },
    2,
  ],
  [
    'version 1 without a quota',
    {
      '/proc/self/cgroup': '4:cpu,cpuacct:/',
      [`${v1}/cpu.cfs_quota_us`]: '-1',
      [`${v1}/cpu.cfs_period_us`]: '100000',
    },
    8,
  ],
  [
    'version 1 in a container, whose path is that of the host',
    {
      '/proc/self/cgroup': '4:cpu,cpuacct:/docker/1',
      [`${v1}/cpu.cfs_quota_us`]: '100000',
      [`${v1}/cpu.cfs_period_us`]: '50000',
    },
    2,
  ],
]

describe('--workers auto', () => {
  for (const [what, files, cores] of rows)
    it(`is ${cores} on 8 cores with ${what}`, () => {
      expect(availableCores(8, (path) => files[path])).to.equal(cores)
    })

  it('reads the files of this machine', () => {
    expect(availableCores()).to.be.at.least(1)
  })
})
