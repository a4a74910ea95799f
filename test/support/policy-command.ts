// Runs `svc policy` in process and keeps what it prints.

// `svc-sdk` does not export it: users run `svc`.
import { policyCommand } from 'svc-sdk/internal/cli/policy'
import { runCommand } from './command.js'

export interface Printed {
  readonly lines: readonly string[]
  /** The lines of standard error. */
  readonly errors: readonly string[]
  readonly exit: number
}

/** `args` are those after `svc policy`; `env` is the environment of the policy. */
export async function runPolicy(
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Promise<Printed> {
  const { out, err, code } = await runCommand((io) => policyCommand(io, env), args)
  return { lines: linesOf(out), errors: linesOf(err), exit: code }
}

function linesOf(text: string): string[] {
  return text.split('\n').slice(0, -1)
}
