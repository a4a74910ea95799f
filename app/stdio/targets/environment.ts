// The environment of a server: the variables that the policy lists, and the few without which programs do not run. It has
// no others of the gateway's own environment, which may hold secrets.
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
