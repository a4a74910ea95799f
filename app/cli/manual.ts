// The end of a command's help, after its options: an example, and the meaning of its exit codes.
import type { Command } from 'commander'
import { ownCommand } from './own-command.js'

export interface Manual {
  /** Arguments of an example, after the command's own name. */
  readonly example: string
  /** The meaning of the exit codes 0 and 1 of a command that judges; 2 means everything else. */
  readonly verdicts?: readonly [good: string, bad: string]
}

/** Exit code of commands whose codes 0 and 1 are verdicts: there is no verdict. */
export const NO_VERDICT = 2

const noVerdict = 'cannot be judged, or a usage error'
const manuals = new WeakMap<Command, Manual>()

export function withManual(command: Command, manual: Manual): Command {
  manuals.set(command, manual)
  return command.addHelpText('after', () => {
    const codes = manual.verdicts === undefined ? ['done', 'an error'] : [...manual.verdicts, noVerdict]
    const lines = codes.map((meaning, code) => `  ${code}  ${meaning}`).join('\n')
    return `\nExample:\n  ${commandLine(command)} ${manual.example}\n\nExit codes:\n${lines}`
  })
}

export function manualOf(command: Command): Manual | undefined {
  return manuals.get(command)
}

/** The names from the program's to the command's. */
export function commandPath(command: Command): string {
  const own = command.name()
  return command.parent === null ? own : `${commandPath(command.parent)} ${own}`
}

/** A command with the way to start this program, for a shell. */
export function commandLine(command: Command): string {
  const { parent } = command
  return parent === null ? ownCommand() : `${commandLine(parent)} ${command.name()}`
}
