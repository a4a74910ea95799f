// The layout of the help of every command.
import type { Argument, Command, Option } from 'commander'
import type { CliIo } from './io.js'
import { commandPath, manualOf } from './manual.js'

const MAX_WIDTH = 100

export function layOutHelp(command: Command, io: CliIo): void {
  const width = Math.min(io.columns ?? MAX_WIDTH, MAX_WIDTH)
  command
    .configureOutput({ getOutHelpWidth: () => width, getErrHelpWidth: () => width })
    .configureHelp({ subcommandTerm, optionDescription, argumentDescription })
  const isGroup = command.commands.length > 0
  // A command without a manual hands its arguments on, --help too.
  if (isGroup || manualOf(command) !== undefined) command.helpOption('-h, --help', 'show this help')
  if (command.parent === null) command.helpCommand('help [command]', 'show the help of a command')
  else command.helpCommand(false)
  if (!isGroup) return
  command.usage('<command> [options]')
  command.addHelpText('after', ({ command: { parent } }) =>
    parent === null
      ? '\nEach command has --help: npx svc-sdk audit verify --help'
      : `\nnpx ${commandPath(command)} <command> --help says more.`,
  )
}

/** The name and the arguments. */
function subcommandTerm(command: Command): string {
  const given = command.registeredArguments.map((argument) => {
    const name = `${argument.name()}${argument.variadic ? '...' : ''}`
    return argument.required ? ` <${name}>` : ` [${name}]`
  })
  return `${command.name()}${given.join('')}`
}

function optionDescription({ description, mandatory, argChoices, defaultValue }: Option): string {
  const shown =
    defaultValue === undefined || typeof defaultValue === 'boolean' ? [] : [`default ${defaultValue}`]
  return withNotes(description, [...(mandatory ? ['required'] : []), ...choicesOf(argChoices), ...shown])
}

function argumentDescription({ description, argChoices }: Argument): string {
  return withNotes(description, choicesOf(argChoices))
}

function choicesOf(choices: readonly string[] = []): string[] {
  return choices.length === 0 ? [] : [new Intl.ListFormat('en', { type: 'disjunction' }).format(choices)]
}

function withNotes(description: string, notes: readonly string[]): string {
  return notes.length === 0 ? description : `${description} (${notes.join('; ')})`
}
