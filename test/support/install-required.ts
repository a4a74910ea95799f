// One package of the workspace as `npm install --omit=optional --omit=peer` leaves it.
import { cpSync, existsSync, mkdirSync, readFileSync, symlinkSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const workspaceModules = fileURLToPath(new URL('../../../node_modules', import.meta.url))

/** Copies the package into `home`, with links to the dependencies that it requires. Returns its folder. */
export function installRequired(home: string, name: string): string {
  const source = join(workspaceModules, name)
  const installed = join(home, 'node_modules')
  const target = join(installed, name)
  mkdirSync(target, { recursive: true })
  const text = readFileSync(join(source, 'package.json'), 'utf8')
  const { dependencies, files }: { dependencies: object; files: string[] } = JSON.parse(text)
  // Documentation is copied into the package only while it is packed.
  const parts = files.filter((file) => !file.startsWith('!') && existsSync(join(source, file)))
  for (const part of ['package.json', ...parts]) {
    cpSync(join(source, part), join(target, part), { recursive: true })
  }
  for (const dependency of Object.keys(dependencies)) {
    const link = join(installed, dependency)
    mkdirSync(dirname(link), { recursive: true })
    symlinkSync(join(workspaceModules, dependency), link)
  }
  return target
}
