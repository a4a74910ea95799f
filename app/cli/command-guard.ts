// How commands end that cannot do what they are for.
import { messageOf, visibleInLine } from '@svc/core/json'
import type { Command } from 'commander'
import type { CliIo } from './io.js'

const FAILED = 1
/**
 * Exit code of commands that judge, of which 0 and 1 are the verdicts: nothing was judged, since the log cannot be read or
 * the command was called wrongly.
 */
export const UNDECIDED = 2

/** Runs the action of `svc-sdk <command> <name>`. */
type CommandGuard = (name: string, action: () => Promise<void>, exitCode?: number) => Promise<void>

/** An error of the classes `expected` becomes one line and the exit code; any other one is rejected. */
export function commandGuard(
  io: CliIo,
  command: string,
  expected: readonly (abstract new (...args: never[]) => Error)[],
): CommandGuard {
  return async (name, action, exitCode = FAILED) => {
    try {
      await action()
    } catch (error) {
      if (!expected.some((one) => error instanceof one)) throw error
      io.err(`svc-sdk ${command} ${name}: ${visibleInLine(messageOf(error))}\n`)
      io.exit(exitCode)
    }
  }
}

/** Wrong arguments of the command exit with `UNDECIDED`; its help with 0. */
export function judging(command: Command): Command {
  return command.exitOverride(({ exitCode }) => process.exit(exitCode === 0 ? 0 : UNDECIDED))
}
