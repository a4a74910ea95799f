// The packages of folders that are no workspaces and have lock files of their own: what only tests and checks need.
import { spawnSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'

/** With SVC_TEST_INSTALL=no nothing is installed. */
export const isForbidden = process.env.SVC_TEST_INSTALL === 'no'

/** Whether the packages that the folder's lock file names for this machine are installed. */
export function isInstalled(folder) {
  const packagesIn = (file) => (existsSync(file) ? JSON.parse(readFileSync(file, 'utf8')).packages : {})
  const installed = packagesIn(`${folder}/node_modules/.package-lock.json`)
  return Object.entries(packagesIn(`${folder}/package-lock.json`)).every(
    ([path, one]) =>
      !path.startsWith('node_modules/') || !isForHere(one) || installed[path]?.version === one.version,
  )
}

/** Not expected are packages of one libc, and optional ones that name no system: a package for another system may need them. */
function isForHere({ os, cpu = [process.arch], libc, optional }) {
  if (os === undefined) return optional !== true
  return os.includes(process.platform) && cpu.includes(process.arch) && libc === undefined
}

export function install(folder, ...flags) {
  const args = ['ci', ...flags, '--no-audit', '--no-fund', '--loglevel=error']
  spawnSync('npm', args, { cwd: folder, stdio: ['ignore', 'ignore', 'inherit'] })
}
