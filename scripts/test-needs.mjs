// Installs what the tests need and `npm ci` does not install: packages, programs of the system, and other versions of
// Node. Prints their names first; with SVC_TEST_INSTALL=no it installs nothing, and tests without their programs fail.
import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { install, isForbidden, isInstalled } from './folder-packages.mjs'

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
  { program: 'chromium-headless-shell', package: 'chromium-headless-shell' },
  { program: '/usr/sbin/rsyslogd', package: 'rsyslog' },
]

// Any output of `--version` counts, as openssl 3.0 does not know the option.
const isThere = ({ program, args }) => {
  const { error, status } = spawnSync(program, args ?? ['--version'], { stdio: 'ignore' })
  return error === undefined && (args === undefined || status === 0)
}
const folderOf = (path) => fileURLToPath(new URL(`../test/${path}`, import.meta.url))
const usesApt = !isForbidden && process.getuid?.() === 0 && isThere({ program: 'apt-get' })

const missing = needs.filter((need) => !isThere(need))
const hasTokens = isThere({ program: 'softhsm2-util' })
const packages = [...missing, ...optional.filter((one) => !isThere(one))].map((need) => need.package)
const tokens = folderOf('pkcs11')
const runtimes = folderOf('runtimes')
/** Those without which the tests do not start, and how npm installs them. */
const folders = [
  {
    folder: folderOf('.'),
    text: 'packages, 540 MB, in test/node_modules',
    flags: ['--ignore-scripts'],
  },
  {
    folder: runtimes,
    text: 'other versions of Node, 600 MB, in test/runtimes/node_modules',
    // No link to a binary: three packages name theirs `node`.
    flags: ['--no-bin-links', '--ignore-scripts'],
  },
]
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
      run: () => install(tokens),
    },
  ...folders
    .filter(({ folder }) => !isInstalled(folder))
    .map(({ folder, text, flags }) => ({ text, run: () => install(folder, ...flags) })),
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
for (const { folder, text, flags } of folders.filter((one) => !isInstalled(one.folder)))
  fail(`the tests need ${text}. Install them in ${folder}: npm ci ${flags.join(' ')}`)

function fail(text) {
  process.stderr.write(`${text}\n`)
  process.exitCode = 1
}

/** The packages' services are not started: RUNLEVEL tells Debian not to. */
function installPackages(names) {
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive', RUNLEVEL: '1' }
  for (const args of [['update'], ['install', '-y', '--no-install-recommends', ...names]]) {
    const { status } = spawnSync('apt-get', args, { env, stdio: ['ignore', 'ignore', 'inherit'] })
    if (status !== 0) return
  }
}
