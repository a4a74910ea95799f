// Runs `svc policy` in process and keeps what it prints.

// `svc-sdk` does not export it: users run `svc`.
import { policyCommand } from 'svc-sdk/internal/cli/policy'

export interface Printed {
  readonly lines: readonly string[]
  readonly exit: number
}

/** `args` are those after `svc policy`; `env` is the environment of the policy. */
export async function runPolicy(
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Promise<Printed> {
  const lines: string[] = []
  let exit = 0
  const io = {
    async out(text: string) {
      lines.push(text.replace(/\n$/, ''))
    },
    err: () => undefined,
    exit: (code: number) => {
      exit = code
    },
  }
  const command = policyCommand(io, env)
  await command.parseAsync(args, { from: 'user' })
  return { lines, exit }
}
