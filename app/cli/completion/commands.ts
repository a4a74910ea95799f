// The commands of a program as its completion needs them.
import type { Argument, Command, Option } from 'commander'

/** The values that may be typed at a place: one of the choices, a path, or any text. */
export interface CompletedValue {
  readonly kind: 'choice' | 'path' | 'text'
  readonly choices: readonly string[]
}

export interface CompletedOption {
  readonly name: string
  readonly description: string
  /** Absent for an option without a value. */
  readonly value: CompletedValue | undefined
}

export interface CompletedCommand {
  /** The names after the program's, with spaces between. */
  readonly path: string
  readonly subcommands: readonly { readonly name: string; readonly description: string }[]
  readonly options: readonly CompletedOption[]
  /** The values that may be typed as an argument: paths, if one of the arguments is a path. */
  readonly argument: CompletedValue
}

export const programNames = ['svc', 'svc-sdk'] as const

export function completedCommands(program: Command, path: readonly string[] = []): CompletedCommand[] {
  const { commands, registeredArguments } = program
  const own = {
    path: path.join(' '),
    subcommands: commands.map((one) => ({ name: one.name(), description: one.description() })),
    options: program.createHelp().visibleOptions(program).flatMap(optionOf),
    argument: argumentOf(registeredArguments),
  }
  return [own, ...commands.flatMap((one) => completedCommands(one, [...path, one.name()]))]
}

function optionOf(option: Option): CompletedOption[] {
  const { long, description, flags, argChoices } = option
  if (typeof long !== 'string') return []
  const [, placeholder] = /[<[]([^>\]]+)[>\]]/.exec(flags) ?? []
  const value = placeholder === undefined ? undefined : completedValue(placeholder, argChoices)
  return [{ name: long, description, value }]
}

function argumentOf(given: readonly Argument[]): CompletedValue {
  const values = given.map((argument) => completedValue(argument.name(), argument.argChoices))
  return values.find(({ kind }) => kind !== 'text') ?? { kind: 'text', choices: [] }
}

const paths = /^(files?|dirs?|checkpoint|old|new|command|source)$/

function completedValue(placeholder: string, choices: readonly string[] = []): CompletedValue {
  if (choices.length > 0) return { kind: 'choice', choices }
  return { kind: paths.test(placeholder.replace(/\.\.\.$/, '')) ? 'path' : 'text', choices }
}
