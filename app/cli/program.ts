// The commands by name. Loading one takes time, so only those that are needed are loaded.
import { Command } from 'commander'
import { gatewayImplementation } from '../mcp/implementation.js'
import { type CliIo, processIo } from './io.js'

/** The commands in the order of the help. */
const commands: Readonly<Record<string, (io: CliIo) => Promise<Command>>> = {
  init: async (io) => (await import('./init.js')).initCommand(io),
  gateway: async (io) => (await import('./gateway.js')).gatewayCommand(io),
  stdio: async () => (await import('./stdio.js')).stdioCommand(),
  policy: async (io) => (await import('./policy.js')).policyCommand(io),
  doctor: async (io) => (await import('./doctor.js')).doctorCommand(io),
  keys: async (io) => (await import('./keys.js')).keysCommand(io),
  audit: async (io) => (await import('./audit.js')).auditCommand(io),
  ap2: async (io) => (await import('./ap2.js')).ap2Command(io),
  escalations: async (io) => (await import('./escalations.js')).escalationsCommand(io),
  'control-plane': async () => (await import('./control-plane.js')).controlPlaneCommand(),
  completion: async (io) => (await import('./completion.js')).completionCommand(io, () => programFor('', io)),
}

/** The program with the command of this name: with none for the version, with all for the help and an unknown name. */
export async function programFor(name = '', io = processIo()): Promise<Command> {
  return programOf(await Promise.all(loadersFor(name).map((load) => load(io))))
}

export function programOf(commands: readonly Command[]): Command {
  const program = new Command('svc-sdk')
    .description('Policy gateway and signed audit log for AI agents that call real tools')
    .version(gatewayImplementation.version, '-V, --version', 'print the version')
    // An option after a subcommand's name belongs to the subcommand, even if its parent has one of that name.
    .enablePositionalOptions()
  for (const command of commands) program.addCommand(command)
  return program
}

function loadersFor(name: string): readonly ((io: CliIo) => Promise<Command>)[] {
  if (name === '--version' || name === '-V') return []
  const load = Object.hasOwn(commands, name) ? commands[name] : undefined
  return load === undefined ? Object.values(commands) : [load]
}
