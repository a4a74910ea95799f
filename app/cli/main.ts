// The command that both bin names, `svc-sdk` and `svc`, run.
import { createRequire } from 'node:module'
import { messageOf } from '@svc/core/json'
import { Command } from 'commander'
import { ap2Command } from './ap2.js'
import { auditCommand } from './audit.js'
import { controlPlaneCommand } from './control-plane.js'
import { doctorCommand } from './doctor.js'
import { escalationsCommand } from './escalations.js'
import { gatewayCommand } from './gateway.js'
import { keysCommand } from './keys.js'
import { policyCommand } from './policy.js'
import { stdioCommand } from './stdio.js'

const { version } = createRequire(import.meta.url)('../../package.json') as { version: string }

const program = new Command('svc-sdk')
  .description('Policy gateway and signed audit log for AI agents that call real tools')
  .version(version)
  // So that an option after a subcommand's name is the subcommand's, though its parent has one of that name.
  .enablePositionalOptions()
  .addCommand(gatewayCommand())
  .addCommand(stdioCommand())
  .addCommand(policyCommand())
  .addCommand(doctorCommand())
  .addCommand(keysCommand())
  .addCommand(auditCommand())
  .addCommand(ap2Command())
  .addCommand(escalationsCommand())
  .addCommand(controlPlaneCommand())

pointToHelp(program, 'npx svc-sdk')

try {
  await program.parseAsync()
} catch (fault) {
  process.stderr.write(`svc-sdk: ${messageOf(fault)}\n`)
  process.exitCode = 1
}

/** An error in a command's options names the command's help. */
function pointToHelp(command: Command, path: string): void {
  command.showHelpAfterError(`(${path} --help tells what it takes)`)
  for (const one of command.commands) pointToHelp(one, `${path} ${one.name()}`)
}
