// Exit codes of commands that judge: 0 and 1 are their verdicts, so that whatever keeps them from one is another number.
import type { Command } from 'commander'

/** Nothing was judged: the log cannot be read, or the command was called wrongly. */
export const UNDECIDED = 2

/** Wrong arguments of the command exit with `UNDECIDED`; its help with 0. */
export function judging(command: Command): Command {
  return command.exitOverride(({ exitCode }) => process.exit(exitCode === 0 ? 0 : UNDECIDED))
}
