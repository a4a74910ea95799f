// Runs a command of `svc` in process and keeps what it prints.
import type { auditCommand } from 'svc-sdk/internal/cli/audit'
import { type CliIo, ioOf } from 'svc-sdk/internal/cli/io'

export interface Run {
  out: string
  err: string
  code: number
}

export async function runCommand(
  make: (io: CliIo) => ReturnType<typeof auditCommand>,
  args: readonly string[],
): Promise<Run> {
  const seen: Run = { out: '', err: '', code: 0 }
  const io = ioOf({
    stdout: {
      write: async (text) => {
        seen.out += text
      },
    },
    stderr: {
      write: (text) => {
        seen.err += text
      },
    },
    exit: (code) => {
      seen.code = code
    },
  })
  const command = make(io)
  await command.parseAsync(args, { from: 'user' })
  return seen
}
