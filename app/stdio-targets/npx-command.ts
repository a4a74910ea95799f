// The package that an `npx` command runs.
import { basename } from 'node:path'

/** A registry's package: name and version or tag. */
const registrySpec = /^(?<name>(?:@[a-z0-9~-][a-z0-9._~-]*\/)?[a-z0-9~-][a-z0-9._~-]*)(?:@[^/:]+)?$/i

/** The package of an `npx` command. */
export interface NpxCommand {
  /** The package as npm takes it: `name@version`. */
  readonly spec: string
  readonly name: string
  /** The arguments of the server. */
  readonly args: readonly string[]
}

/** Undefined if the command is not `npx [-y] PACKAGE ARGS` with a package of a registry. */
export function readNpx(command: string, args: readonly string[]): NpxCommand | undefined {
  if (basename(command) !== 'npx') return undefined
  const first = args.findIndex((arg) => arg !== '-y' && arg !== '--yes')
  const spec = args[first]
  const name = spec === undefined ? undefined : registrySpec.exec(spec)?.groups?.['name']
  return spec === undefined || name === undefined ? undefined : { spec, name, args: args.slice(first + 1) }
}
