// What the tests start and npm does not bring: installed where that can be done, named where it cannot. Tests do not
// pass without it.
import { spawnSync } from 'node:child_process'

const needs = [
  {
    program: 'redis-server',
    package: 'redis-server',
    why: 'the quota adapter `redis` is tested on real servers',
  },
  {
    program: 'openssl',
    package: 'openssl',
    why: 'certificates for the tests of TLS are made with it',
  },
]

// Whatever it says: openssl 3.0 does not know `--version`.
const isThere = (program) => spawnSync(program, ['--version'], { stdio: 'ignore' }).error === undefined

const missing = needs.filter(({ program }) => !isThere(program))
if (missing.length > 0 && process.getuid?.() === 0 && isThere('apt-get')) {
  install(missing.map((need) => need.package))
}
for (const { program, package: name, why } of missing.filter((need) => !isThere(need.program))) {
  process.stderr.write(
    `the tests need ${program}: ${why}. Install it, on Debian with: apt-get install ${name}\n`,
  )
  process.exitCode = 1
}

/** The packages' services are not started: RUNLEVEL tells Debian that this is no time for it. */
function install(packages) {
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive', RUNLEVEL: '1' }
  for (const args of [['update'], ['install', '-y', '--no-install-recommends', ...packages]]) {
    const { status } = spawnSync('apt-get', args, { env, stdio: ['ignore', 'ignore', 'inherit'] })
    if (status !== 0) return
  }
}
