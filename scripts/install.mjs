// Installs the packages of each folder that is named, as its lock file has them, unless they are installed; says so first.
import { fileURLToPath } from 'node:url'
import { install, isForbidden, isInstalled } from './folder-packages.mjs'

for (const name of process.argv.slice(2)) {
  const folder = fileURLToPath(new URL(`../${name}`, import.meta.url))
  if (isInstalled(folder)) continue
  if (!isForbidden) {
    process.stdout.write(`Installs packages in ${name}/node_modules. SVC_TEST_INSTALL=no forbids it.\n`)
    install(folder, '--ignore-scripts')
  }
  if (!isInstalled(folder)) {
    process.stderr.write(`packages are missing. Install them in ${name}: npm ci --ignore-scripts\n`)
    process.exitCode = 1
  }
}
