// Runs `svc policy` in process and keeps what it prints.

// `svc-sdk` does not export it: users run `svc`.
import { policyCommand } from 'svc-sdk/internal/cli/policy'

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
  const lines: string[] = []
  const errors: string[] = []
  let exit = 0
  const io = {
    async out(text: string) {
      lines.push(text.replace(/\n$/, ''))
    },
    err: (text: string) => {
      errors.push(text.replace(/\n$/, ''))
    },
    exit: (code: number) => {
      exit = code
    },
  }
  const command = policyCommand(io, env)
  await command.parseAsync(args, { from: 'user' })
  return { lines, errors, exit }
}
