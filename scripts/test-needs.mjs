// Installs what the tests start and `npm ci` does not bring: programs of the system, and other versions of Node. Names
// what it cannot install; tests do not pass without it.
import { spawnSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

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
  {
    program: 'python3',
    args: ['-c', 'import cryptography'],
    package: 'python3-cryptography',
    why: 'the verifier of examples/verifier checks every log that verification is tested on',
  },
]

// Whatever a program says to `--version`, which openssl 3.0 does not know.
const isThere = ({ program, args }) => {
  const { error, status } = spawnSync(program, args ?? ['--version'], { stdio: 'ignore' })
  return error === undefined && (args === undefined || status === 0)
}

const missing = needs.filter((need) => !isThere(need))
if (missing.length > 0 && process.getuid?.() === 0 && isThere({ program: 'apt-get' })) {
  install(missing.map((need) => need.package))
}
for (const { package: name, why } of missing.filter((need) => !isThere(need))) {
  process.stderr.write(
    `the tests need ${name}: ${why}. Install it, on Debian with: apt-get install ${name}\n`,
  )
  process.exitCode = 1
}
installTokens(fileURLToPath(new URL('../test/pkcs11', import.meta.url)))
installRuntimes(fileURLToPath(new URL('../test/runtimes', import.meta.url)))

/** SoftHSM and a binding that is compiled. Optional: the PKCS#11 signer is tested where both install. */
function installTokens(folder) {
  if (!isThere({ program: 'softhsm2-util' })) {
    if (process.getuid?.() !== 0 || !isThere({ program: 'apt-get' })) return
    install(['softhsm2'])
  }
  if (existsSync(`${folder}/node_modules/pkcs11js/build/Release/pkcs11.node`)) return
  spawnSync('npm', ['ci', '--no-audit', '--no-fund'], { cwd: folder, stdio: 'ignore' })
}

/** From the npm packages that hold Node's own builds for Linux. Elsewhere tests run on the Node that runs them. */
function installRuntimes(folder) {
  const versionsIn = (file) => {
    const { packages } = existsSync(file) ? JSON.parse(readFileSync(file, 'utf8')) : { packages: {} }
    const here = Object.entries(packages).filter(([, { os, cpu }]) => isHere(os, cpu))
    return JSON.stringify(here.map(([path, { version }]) => [path, version]))
  }
  const isHere = (os, cpu) => `${os}`.includes(process.platform) && `${cpu}`.includes(process.arch)
  if (versionsIn(`${folder}/package-lock.json`) === versionsIn(`${folder}/node_modules/.package-lock.json`))
    return
  // No link to a binary: three packages name theirs `node`.
  const args = ['ci', '--no-bin-links', '--ignore-scripts', '--no-audit', '--no-fund']
  const { status } = spawnSync('npm', args, { cwd: folder, stdio: ['ignore', 'ignore', 'inherit'] })
  if (status !== 0) {
    process.stderr.write(`the tests need other versions of Node: \`npm ci\` failed in ${folder}\n`)
    process.exitCode = 1
  }
}

/** The packages' services are not started: RUNLEVEL tells Debian that this is no time for it. */
function install(packages) {
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive', RUNLEVEL: '1' }
  for (const args of [['update'], ['install', '-y', '--no-install-recommends', ...packages]]) {
    const { status } = spawnSync('apt-get', args, { env, stdio: ['ignore', 'ignore', 'inherit'] })
    if (status !== 0) return
  }
}
