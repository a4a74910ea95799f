// Reads the values of options of commands, and ends a command that fails.
import { messageOf, visibleInLine } from '@svc/core/json'
import { type Command, InvalidArgumentError } from 'commander'
import type { CliIo } from './io.js'

const FAILED = 1
/**
 * Exit code of commands whose codes 0 and 1 are verdicts: there is no verdict, because the log cannot be read or the
 * arguments of the command are wrong.
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
export function exitUndecided(command: Command): Command {
  return command.exitOverride(({ exitCode }) => process.exit(exitCode === 0 ? 0 : UNDECIDED))
}

export function wholeNumber(min: number, max?: number): (text: string) => number {
  return (text) => {
    const number = Number(text)
    if (/^\d+$/.test(text) && number >= min && number <= (max ?? Number.MAX_SAFE_INTEGER)) return number
    throw new InvalidArgumentError(
      max === undefined ? `expected a whole number from ${min} on` : `expected ${min} to ${max}`,
    )
  }
}

/** Collects the values of an option that may be repeated. */
export function collectValue(value: string, values: readonly string[] = []): readonly string[] {
  return [...values, value]
}

export const portOf = wholeNumber(0, 65_535)

/** Parses a time to milliseconds since the epoch. */
export function parseInstant(text: string): number {
  const ms = Date.parse(text)
  if (Number.isNaN(ms)) throw new InvalidArgumentError('expected a time such as 2026-01-01T00:00:00Z')
  return ms
}
