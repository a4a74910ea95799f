// The program of a command, found as a shell does, and commands of `npx`.
import { accessSync, constants, statSync } from 'node:fs'
import { basename, delimiter, isAbsolute, join, resolve } from 'node:path'

/** The absolute path of an executable file; undefined if there is none. A path starts from `baseDir`. */
export function findCommand(command: string, baseDir: string, path: string | undefined): string | undefined {
  if (command.includes('/')) return executable(resolve(baseDir, command))
  for (const directory of (path ?? '').split(delimiter)) {
    if (!isAbsolute(directory)) continue
    const found = executable(join(directory, command))
    if (found !== undefined) return found
  }
  return undefined
}

function executable(path: string): string | undefined {
  try {
    accessSync(path, constants.X_OK)
    return statSync(path).isFile() ? path : undefined
  } catch (error) {
    if (error instanceof Error && 'code' in error) return undefined
    throw error
  }
}

// Commands of `npx`, which fetches a package when it is not installed.

/** A registry's package: name and version, range or tag. */
const registrySpec = /^(?:@[a-z0-9~][a-z0-9._~-]*\/)?[a-z0-9~][a-z0-9._~-]*(?:@[^/:\s]+)?$/i

/** Whether the command is `npx` and may fetch what it runs. It does not after `--no`, unless a later option says yes. */
export function mayFetch(command: string, [option, next = '']: readonly string[]): boolean {
  return basename(command) === 'npx' && !(option === '--no' && /^(?:--$|[^-])/.test(next))
}

/** The package of `npx [-y] PACKAGE ARGS`. */
export interface NpxPackage {
  /** The package as npm takes it: `name@version`. */
  readonly spec: string
  /** The arguments of its program. */
  readonly args: readonly string[]
}

/** Undefined for another command, and for a package that is not one of a registry. */
export function readNpx(command: string, args: readonly string[]): NpxPackage | undefined {
  if (basename(command) !== 'npx') return undefined
  const first = args.findIndex((arg) => arg !== '-y' && arg !== '--yes')
  const spec = args[first]
  if (spec === undefined || !registrySpec.test(spec)) return undefined
  return { spec, args: args.slice(first + 1) }
}
