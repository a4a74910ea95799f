// Commands of `npx`, which fetches a package when it is not installed.
import { basename } from 'node:path'

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
