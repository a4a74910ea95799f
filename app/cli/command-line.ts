// Runs a command line. Every error is written to standard error, with an exit code that is not a verdict.
import { messageOf, visibleInLine } from '@svc/core/json'
import type { Argument, Command, CommanderError, Option } from 'commander'
import type { CliIo } from './io.js'
import { commandLine, commandPath, manualOf, NO_VERDICT } from './manual.js'

const ERROR = 1

/** An error in the arguments of a command. */
class UsageError extends Error {
  constructor(
    readonly command: Command,
    override readonly cause: CommanderError,
  ) {
    super(cause.message)
  }
}

export async function runCommandLine(program: Command, args: readonly string[], io: CliIo): Promise<void> {
  prepare(program, io)
  let running = program
  program.hook('preAction', (_, command) => {
    running = command
  })
  try {
    await program.parseAsync(args, { from: 'user' })
  } catch (error) {
    if (error instanceof UsageError) return reportUsage(error, io)
    io.err(`${commandPath(running)}: ${visibleInLine(messageOf(error))}\n`)
    io.exit(failureCode(running))
  }
}

function prepare(command: Command, io: CliIo): void {
  layOutHelp(command, io)
  command.configureOutput({
    writeOut: (text) => void io.out(text),
    writeErr: (text) => io.err(text),
    outputError: () => undefined,
  })
  command.showSuggestionAfterError(false).exitOverride((error) => {
    throw new UsageError(command, error)
  })
  for (const one of command.commands) prepare(one, io)
}

/** A name that may stand for a command that judges, such as a misspelt one, fails like it. */
function failureCode(command: Command): number {
  const judges = command.commands.length > 0 || manualOf(command)?.verdicts !== undefined
  return judges ? NO_VERDICT : ERROR
}

async function reportUsage({ command, cause }: UsageError, io: CliIo): Promise<void> {
  if (cause.exitCode === 0) return
  io.exit(failureCode(command))
  if (cause.code === 'commander.help') return
  const path = commandPath(command)
  const message =
    (await misspelt(command, cause)) ?? (await wrongValue(cause)) ?? cause.message.replace(/^error: /, '')
  io.err(`${path}: ${visibleInLine(message)}\n(${commandLine(command)} --help lists ${listed(command)})\n`)
}

const listed = ({ commands }: Command): string => (commands.length > 0 ? 'the commands' : 'the options')

/** The message about an unknown command or option, with the one that is meant. */
async function misspelt(command: Command, { code }: CommanderError): Promise<string | undefined> {
  // A command with commands of its own may do something without them, and takes the name for an argument.
  const isExcess = code === 'commander.excessArguments' && command.commands.length > 0
  if (code === 'commander.unknownCommand' || isExcess) {
    const [written = ''] = command.args
    return `there is no command "${written}"${await suggestion(written, commandNames(command))}`
  }
  // A misspelt option is the reason why a required one is missing.
  if (code !== 'commander.unknownOption' && code !== 'commander.missingMandatoryOptionValue') return undefined
  const written = command.args.find((arg) => /^-./.test(arg))?.replace(/=.*$/s, '')
  if (written === undefined) return undefined
  const names = command.createHelp().visibleOptions(command)
  return `there is no option ${written}${await suggestion(
    written,
    names.flatMap(({ long }) => long ?? []),
  )}`
}

/** The message about a value that an option or argument does not take. */
async function wrongValue({ code, message }: CommanderError): Promise<string | undefined> {
  if (code !== 'commander.invalidArgument') return undefined
  const option = /^error: option '(?:-\w, )?(-\S+).*?' argument '(.*)' is invalid\. (.*)$/s.exec(message)
  const argument = /^error: command-argument value '(.*)' is invalid for argument '(.*)'\. (.*)$/s.exec(
    message,
  )
  const [name, written = '', expected = ''] = option?.slice(1) ?? [
    argument?.[2],
    argument?.[1],
    argument?.[3],
  ]
  if (name === undefined) return undefined
  const choices = /^Allowed choices are (.*)\.$/.exec(expected)?.[1]
  if (choices === undefined) return `${name}: ${JSON.stringify(written)} is given; ${expected}`
  const meant = await suggestion(written, choices.split(', '))
  return `${name}: ${JSON.stringify(written)} is given; accepted: ${choices}${meant}`
}

/** The names of the subcommands, and of theirs too, because a user may leave out the group: `svc verify`. */
function commandNames(command: Command): string[] {
  const own = command.commands.map((one) => one.name())
  return [
    ...own,
    ...command.commands.flatMap((one) => one.commands.map((leaf) => `${one.name()} ${leaf.name()}`)),
  ]
}

async function suggestion(written: string, names: readonly string[]): Promise<string> {
  // Imported here, because it loads what reads a policy.
  const { nearest } = await import('@svc/core/policy')
  const meant = nearest(written, names) ?? names.find((name) => name.endsWith(` ${written}`))
  return meant === undefined ? '' : `; did you mean ${meant}?`
}

const MAX_WIDTH = 100

/** The layout of the help of every command. */
function layOutHelp(command: Command, io: CliIo): void {
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
      ? `\nEach command has --help: ${commandLine(command)} audit verify --help`
      : `\n${commandLine(command)} <command> --help says more.`,
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
