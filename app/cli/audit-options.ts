// Options that several commands of `svc audit` share.
import { type Command, Option } from 'commander'
import { wholeNumber } from './option-values.js'

export interface LogPlace {
  policy?: string
}

export const KEYS_HELP =
  'public keys (ed25519:<base64>, one a line, with the leaves that each may sign) or a signing key file'

/** A command that reads or continues a log: that of a directory, or that of a policy. */
export function withLog(command: Command): Command {
  return command
    .argument('[dir]', 'the directory of the log')
    .option('--policy <file>', "the gateway's policy, which says where the log is, instead of DIR")
}

/** A command that takes signing keys. */
export function withPlugin(command: Command): Command {
  return command.option(
    '--plugin <module>',
    'the module that opens keys outside of files, such as @svc/signer-pkcs11',
  )
}

/** Rejects if neither or both are given. */
export async function logOf(dir: string | undefined, policy: string | undefined): Promise<string> {
  if (policy === undefined) {
    if (dir === undefined) throw new Error('give the directory of the log, or --policy FILE')
    return dir
  }
  if (dir !== undefined) throw new Error('give the directory of the log or --policy, not both')
  // Imported here, because it loads every plugin.
  const { gatewayOf } = await import('./policy-gateway.js')
  return (await gatewayOf(policy, process.env)).logDir
}

export function withFilter(command: Command): Command {
  return command
    .option('--since <time>', 'from this day or ISO 8601 instant on')
    .option('--until <time>', 'before this day or ISO 8601 instant')
    .option('--tenant <tenant>', 'only this tenant')
    .option('--tool <tool>', '<name>@<version>, or a name for all versions')
    .option('--server <server>', '<name>@<version>, or a name for all versions')
    .addOption(new Option('--decision <decision>', 'only this decision').choices(['allow', 'deny']))
    .addOption(new Option('--status <status>', 'only this outcome').choices(['ok', 'error']))
    .option('--trace-id <id>', 'only this trace')
    .option('--span-id <id>', 'only this span')
    .option('--agent <id>', 'only this agent reference or node id')
    .option('--principal <id>', 'only this user, user id or client id')
    .option('--error <code>', 'only this error code')
    .option('--escalation <id>', 'only this escalation')
    .option('--policy-sha256 <hash>', 'only records judged by this policy: its hash, or the first digits')
}

export function withWitnesses(command: Command): Command {
  return command
    .option(
      '--witness-keys <file>',
      'verifier keys of witnesses that must have cosigned the newest checkpoint',
    )
    .option('--quorum <n>', 'how many of them, instead of all', wholeNumber(1))
}
