// The environment of a server: the variables that the policy lists, and the few without which programs do not run. It has
// no others of the gateway's own environment, which may hold secrets.

import { accessSync, constants, statSync } from 'node:fs'
import { basename, delimiter, isAbsolute, join, resolve } from 'node:path'
import { isKeyReference } from '@svc/core/policy'

/** The variables that every server gets from the gateway's environment. */
export const inheritedVariables = [
  'HOME',
  'LANG',
  'LC_ALL',
  'LOGNAME',
  'PATH',
  'SHELL',
  'TERM',
  'TMPDIR',
  'TZ',
  'USER',
] as const

/** A value that came from a reference. */
export interface EnvironmentSecret {
  /** The variable that has the value, or the reference. */
  readonly name: string
  readonly value: string
}

export interface ServerEnvironment {
  readonly variables: Readonly<Record<string, string>>
  /** Values that must not be logged. */
  readonly secrets: readonly EnvironmentSecret[]
}

/** The reference in an argument such as `${file://PATH}`; undefined for any other, which is passed on as it is. */
export function referenceIn(argument: string): string | undefined {
  const [, inner = ''] = /^\$\{(.*)\}$/.exec(argument) ?? []
  return isKeyReference(inner) ? inner : undefined
}

export interface CommandArguments {
  readonly args: readonly string[]
  /** Values that must not be logged. */
  readonly secrets: readonly EnvironmentSecret[]
}

/** `read` resolves a reference; a rejection of it is passed on. */
export async function argumentsOf(
  listed: readonly string[],
  read: (ref: string) => Promise<string>,
): Promise<CommandArguments> {
  const args: string[] = []
  const secrets: EnvironmentSecret[] = []
  for (const argument of listed) {
    const ref = referenceIn(argument)
    const value = ref === undefined ? argument : await read(ref)
    if (ref !== undefined) secrets.push({ name: argument, value })
    args.push(value)
  }
  return { args, secrets }
}

/** `read` resolves a reference; a rejection of it is passed on. */
export async function environmentOf(
  listed: Readonly<Record<string, string>>,
  own: Readonly<Record<string, string | undefined>>,
  read: (ref: string) => Promise<string>,
): Promise<ServerEnvironment> {
  const variables: Record<string, string> = {}
  for (const name of inheritedVariables) {
    const value = own[name]
    if (value !== undefined) variables[name] = value
  }
  const secrets: EnvironmentSecret[] = []
  for (const [name, text] of Object.entries(listed)) {
    const value = isKeyReference(text) ? await read(text) : text
    if (value !== text) secrets.push({ name, value })
    variables[name] = value
  }
  return { variables, secrets }
}

/** The path with the home directory in place of `~` or `${HOME}` at its start, as configurations of clients have them. */
export function withHome(path: string, home: string | undefined): string {
  return home === undefined ? path : path.replace(/^(?:~|\$\{HOME\})(?=\/|$)/, () => home)
}

// The program of a command, found as a shell does, and commands of `npx`.

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
