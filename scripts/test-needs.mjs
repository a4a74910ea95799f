// Installs the programs that the tests start and `npm ci` does not install: programs of the system, and other versions of
// Node. Prints their names first; with SVC_TEST_INSTALL=no it installs nothing, and tests without their programs fail.
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

/** Tests of their parts are skipped without them, and say so. */
const optional = [
  { program: 'softhsm2-util', package: 'softhsm2' },
  { program: 'haproxy', package: 'haproxy' },
  { program: '/usr/sbin/nginx', package: 'nginx' },
  { program: 'prometheus', package: 'prometheus' },
  { program: 'chromium', package: 'chromium' },
  { program: '/usr/sbin/rsyslogd', package: 'rsyslog' },
]

// Any output of `--version` counts, as openssl 3.0 does not know the option.
const isThere = ({ program, args }) => {
  const { error, status } = spawnSync(program, args ?? ['--version'], { stdio: 'ignore' })
  return error === undefined && (args === undefined || status === 0)
}
const folderOf = (path) => fileURLToPath(new URL(`../test/${path}`, import.meta.url))
const isForbidden = process.env.SVC_TEST_INSTALL === 'no'
const usesApt = !isForbidden && process.getuid?.() === 0 && isThere({ program: 'apt-get' })

const missing = needs.filter((need) => !isThere(need))
const hasTokens = isThere({ program: 'softhsm2-util' })
const packages = [...missing, ...optional.filter((one) => !isThere(one))].map((need) => need.package)
const tokens = folderOf('pkcs11')
const runtimes = folderOf('runtimes')
const steps = [
  usesApt &&
    packages.length > 0 && {
      text: `Debian packages, by apt-get: ${packages.join(', ')}`,
      run: () => installPackages(packages),
    },
  // Optional: the PKCS#11 signer is tested if SoftHSM and its binding install.
  (hasTokens || usesApt) &&
    !existsSync(`${tokens}/node_modules/pkcs11js/build/Release/pkcs11.node`) && {
      text: 'a binding for PKCS#11, compiled, in test/pkcs11/node_modules',
      run: () => installFolder(tokens),
    },
  !isInstalled(runtimes) && {
    text: 'other versions of Node, 600 MB, in test/runtimes/node_modules',
    // No link to a binary: three packages name theirs `node`.
    run: () => installFolder(runtimes, '--no-bin-links', '--ignore-scripts'),
  },
].filter(Boolean)

if (steps.length > 0) {
  const verb = isForbidden ? 'SVC_TEST_INSTALL=no, so these are not installed' : 'The tests install'
  const hint = isForbidden ? '' : 'SVC_TEST_INSTALL=no forbids it.\n'
  process.stdout.write(`${verb}:\n${steps.map(({ text }) => `  ${text}\n`).join('')}${hint}`)
}
if (!isForbidden) for (const { run } of steps) run()

for (const { package: name, why } of missing.filter((need) => !isThere(need))) {
  fail(`the tests need ${name}: ${why}. Install it, on Debian with: apt-get install ${name}`)
}
if (!isInstalled(runtimes)) {
  fail(
    'the tests need other versions of Node. Install them in test/runtimes: npm ci --no-bin-links --ignore-scripts',
  )
}

function fail(text) {
  process.stderr.write(`${text}\n`)
  process.exitCode = 1
}

/** Whether the packages that a folder's lock file names for this machine are installed. */
function isInstalled(folder) {
  const isHere = (os, cpu) => `${os}`.includes(process.platform) && `${cpu}`.includes(process.arch)
  const versionsIn = (file) => {
    const { packages: all } = existsSync(file) ? JSON.parse(readFileSync(file, 'utf8')) : { packages: {} }
    const here = Object.entries(all).filter(([, { os, cpu }]) => isHere(os, cpu))
    return JSON.stringify(here.map(([path, { version }]) => [path, version]))
  }
  return versionsIn(`${folder}/package-lock.json`) === versionsIn(`${folder}/node_modules/.package-lock.json`)
}

function installFolder(cwd, ...flags) {
  const args = ['ci', ...flags, '--no-audit', '--no-fund']
  spawnSync('npm', args, { cwd, stdio: ['ignore', 'ignore', 'inherit'] })
}

/** The packages' services are not started: RUNLEVEL tells Debian not to. */
function installPackages(names) {
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive', RUNLEVEL: '1' }
  for (const args of [['update'], ['install', '-y', '--no-install-recommends', ...names]]) {
    const { status } = spawnSync('apt-get', args, { env, stdio: ['ignore', 'ignore', 'inherit'] })
    if (status !== 0) return
  }
}
