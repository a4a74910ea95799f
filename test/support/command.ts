// Runs a command of `svc` in process and keeps what it prints.
import type { auditCommand } from 'svc-sdk/internal/cli/audit'
import type { CliIo } from 'svc-sdk/internal/cli/io'

interface Run {
  out: string
  err: string
  code: number
}

export async function runCommand(
  make: (io: CliIo) => ReturnType<typeof auditCommand>,
  args: readonly string[],
): Promise<Run> {
  const seen: Run = { out: '', err: '', code: 0 }
  const command = make({
    out: async (text) => {
      seen.out += text
    },
    err: (text) => {
      seen.err += text
    },
    exit: (code) => {
      seen.code = code
    },
  })
  await command.parseAsync(args, { from: 'user' })
  return seen
}
