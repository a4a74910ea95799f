// Runs a command of `svc` in process and keeps what it prints.
import type { auditCommand } from 'svc-sdk/internal/cli/audit'
import { runCommandLine } from 'svc-sdk/internal/cli/command-line'
import { type CliIo, ioOf } from 'svc-sdk/internal/cli/io'
import { commandPath } from 'svc-sdk/internal/cli/manual'
import { programFor, programOf } from 'svc-sdk/internal/cli/program'

export interface Run {
  out: string
  err: string
  code: number
}

/** `args` are those after the command's name. */
export function runCommand(
  make: (io: CliIo) => ReturnType<typeof auditCommand>,
  args: readonly string[],
): Promise<Run> {
  return runIn(async (io) => {
    const command = make(io)
    await runCommandLine(programOf([command]), [command.name(), ...args], io)
  })
}

/** The whole command line, as `svc` reads it. */
export function runSvc(...args: readonly string[]): Promise<Run> {
  return runIn(async (io) => runCommandLine(await programFor(args[0], io), args, io))
}

type AnyCommand = ReturnType<typeof programOf>

/** The program and all its commands, but the one of another package. */
export async function allCommands(): Promise<AnyCommand[]> {
  const all = (command: AnyCommand): AnyCommand[] => [command, ...command.commands.flatMap(all)]
  return all(await programFor()).filter((command) => command.name() !== 'control-plane')
}

/** The names that lead to a command. */
export const argsOf = (command: AnyCommand): string[] => commandPath(command).split(' ').slice(1)

/** The help of every command, as test/fixtures/help.txt has it; `npm run docs` writes that. */
export async function helpOfAll(): Promise<string> {
  const texts: string[] = []
  for (const command of await allCommands()) {
    const args = [...argsOf(command), '--help']
    texts.push(`$ svc-sdk ${args.join(' ')}\n${(await runSvc(...args)).out}`)
  }
  return texts.join('\n')
}

async function runIn(run: (io: CliIo) => Promise<void>): Promise<Run> {
  const seen: Run = { out: '', err: '', code: 0 }
  await run(
    ioOf({
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
    }),
  )
  return seen
}
