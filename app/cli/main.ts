// The command that both bin names, `svc-sdk` and `svc`, run.
import { createRequire } from 'node:module'
import { messageOf } from '@svc/core/json'
import { Command } from 'commander'
import { processIo } from './io.js'

/** The commands in the order of the help. */
const commands: Readonly<Record<string, () => Promise<Command>>> = {
  gateway: async () => (await import('./gateway.js')).gatewayCommand(),
  stdio: async () => (await import('./stdio.js')).stdioCommand(),
  policy: async () => (await import('./policy.js')).policyCommand(),
  doctor: async () => (await import('./doctor.js')).doctorCommand(),
  keys: async () => (await import('./keys.js')).keysCommand(),
  audit: async () => (await import('./audit.js')).auditCommand(),
  ap2: async () => (await import('./ap2.js')).ap2Command(),
  escalations: async () => (await import('./escalations.js')).escalationsCommand(),
  'control-plane': async () => (await import('./control-plane.js')).controlPlaneCommand(),
}

const { version } = createRequire(import.meta.url)('../../package.json') as { version: string }

const program = new Command('svc-sdk')
  .description('Policy gateway and signed audit log for AI agents that call real tools')
  .version(version)
  // An option after a subcommand's name belongs to the subcommand, even if its parent has one of that name.
  .enablePositionalOptions()

for (const load of commandsFor(process.argv[2])) program.addCommand(await load())

const io = processIo()
prepare(program, 'npx svc-sdk')

try {
  await program.parseAsync()
} catch (error) {
  io.err(`svc-sdk: ${messageOf(error)}\n`)
  io.exit(1)
}

/** An error in a command's options names the command's help. Commander prints like the commands. */
function prepare(command: Command, path: string): void {
  command.configureOutput({ writeOut: (text) => void io.out(text), writeErr: (text) => io.err(text) })
  command.showHelpAfterError(`(${path} --help lists the options)`)
  for (const one of command.commands) prepare(one, `${path} ${one.name()}`)
}

/**
 * Loads only the command of this name, because loading the others takes time: no command for the version, and all
 * commands for the help and for an unknown name.
 */
function commandsFor(name = ''): readonly (() => Promise<Command>)[] {
  if (name === '--version' || name === '-V') return []
  const load = Object.hasOwn(commands, name) ? commands[name] : undefined
  return load === undefined ? Object.values(commands) : [load]
}
