// The commands by name. Loading one takes time, so only those that are needed are loaded.
import { Command } from 'commander'
import { gatewayImplementation } from '../mcp/protocol.js'
import { type CliIo, processIo } from './io.js'

interface Entry {
  readonly description: string
  /** The arguments in the list of commands. */
  readonly args?: string
  readonly load: (io: CliIo) => Promise<Command>
}

/** The commands in the order of the help. */
const commands: Readonly<Record<string, Entry>> = {
  init: {
    description: "put the MCP servers of this user's clients behind a policy; --undo takes it back",
    load: async (io) => (await import('./init.js')).initCommand(io),
  },
  gateway: {
    description: 'start the gateway; SIGTERM drains and ends it, SIGHUP reloads the policy',
    load: async (io) => (await import('./gateway.js')).gatewayCommand(io),
  },
  stdio: {
    description: 'govern an MCP server over stdio, for the configuration of a client',
    args: '[command...]',
    load: async () => (await import('./stdio.js')).stdioCommand(),
  },
  policy: {
    description: 'check a policy, test it, explain what it decides, print its JSON Schema',
    load: async (io) => (await import('./policy.js')).policyCommand(io),
  },
  doctor: {
    description: 'check what a policy names: keys, stores, issuer, servers, disk, clock, ports, certificates',
    args: '<file>',
    load: async (io) => (await import('./doctor.js')).doctorCommand(io),
  },
  keys: {
    description: 'make signing keys, and change those that a log trusts',
    load: async (io) => (await import('./keys.js')).keysCommand(io),
  },
  audit: {
    description: 'verify and read the audit log',
    load: async (io) => (await import('./audit.js')).auditCommand(io),
  },
  ap2: {
    description: 'check and make payment mandates of the Agent Payments Protocol',
    load: async (io) => (await import('./ap2.js')).ap2Command(io),
  },
  escalations: {
    description: 'list, approve and reject calls that wait for a person',
    load: async (io) => (await import('./escalations.js')).escalationsCommand(io),
  },
  tools: {
    description: 'lock the definitions of tools; show those that changed, and accept them',
    load: async (io) => (await import('./tools.js')).toolsCommand(io),
  },
  block: {
    description: 'refuse calls of a caller, a tool or a server at once, in every gateway',
    load: async (io) => (await import('./block.js')).blockCommand(io),
  },
  console: {
    description: "serve the console's pages from here, for a gateway elsewhere",
    load: async (io) => (await import('./console.js')).consoleCommand(io),
  },
  'control-plane': {
    description: 'receive uploaded logs (needs the package @svc/control-plane)',
    args: '[args...]',
    load: async () => (await import('./control-plane.js')).controlPlaneCommand(),
  },
  completion: {
    description: 'print a script that completes svc and svc-sdk in a shell',
    args: '<shell>',
    load: async (io) => (await import('./completion.js')).completionCommand(io, () => programFor('', io)),
  },
}

/**
 * The program with the command of this name, or with all for an unknown one. The help lists all, and the version none,
 * without loading them.
 */
export async function programFor(name = '', io = processIo()): Promise<Command> {
  if (name === '--version' || name === '-V') return programOf([])
  const entries = Object.entries(commands)
  if (['--help', '-h'].includes(name)) return programOf(entries.map(listed))
  const named = entries.filter(([one]) => one === name)
  return programOf(
    await Promise.all(
      (named.length > 0 ? named : entries).map(async ([, { description, load }]) =>
        (await load(io)).description(description),
      ),
    ),
  )
}

function listed([name, { description, args }]: [string, Entry]): Command {
  const command = new Command(name).description(description)
  return args === undefined ? command : command.arguments(args)
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
