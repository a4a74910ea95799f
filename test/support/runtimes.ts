// The versions of Node that `npm test` installs beside the one that it runs on; see test/runtimes/package.json.
import { readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

export interface Runtime {
  readonly version: string
  /** Path of the program. */
  readonly node: string
}

const folder = fileURLToPath(new URL('../../runtimes/', import.meta.url))
const platform = `-${process.platform}-${process.arch}`

/** This process's own first. The others are there for Linux on x64 and arm64. */
export function runtimes(): Runtime[] {
  const { optionalDependencies } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as {
    optionalDependencies: Record<string, string>
  }
  const others = Object.entries(optionalDependencies)
    .filter(([name]) => name.endsWith(platform))
    .map(([name, range]) => ({
      version: range.slice(range.lastIndexOf('@') + 1),
      node: join(folder, 'node_modules', name, 'bin/node'),
    }))
  return [{ version: process.versions.node, node: process.execPath }, ...others]
}

/** A version that lets several processes listen on one port: `npm test` itself may run on an older one. */
export function sharingRuntime(major = '24'): Runtime {
  const found = runtimes().find(({ version }) => version.startsWith(`${major}.`))
  if (found === undefined) throw new Error(`Node ${major} is not among the versions of test/runtimes`)
  return found
}

/** An environment in which `node`, and with it `npx`, is this runtime's. */
export function pathOf({ node }: Runtime): { PATH: string } {
  return { PATH: `${dirname(node)}:${process.env['PATH'] ?? ''}` }
}
