// `svc completion`: the script that completes commands, options and their values in a shell.
import { Argument, Command } from 'commander'
import { bashScript } from './completion/bash.js'
import { completedCommands } from './completion/commands.js'
import { fishScript } from './completion/fish.js'
import { zshScript } from './completion/zsh.js'
import type { CliIo } from './io.js'
import { withManual } from './manual.js'

const scripts = { bash: bashScript, fish: fishScript, zsh: zshScript }

/** `program` resolves to the whole program, of which the script is made. */
export function completionCommand(io: CliIo, program: () => Promise<Command>): Command {
  const command = new Command('completion')
    .addArgument(new Argument('<shell>', 'the shell').choices(Object.keys(scripts)))
    .action(async (shell: keyof typeof scripts) =>
      io.out(scripts[shell](completedCommands(await program())), true),
    )
  return withManual(command, { example: 'bash > ~/.local/share/bash-completion/completions/svc' })
}
