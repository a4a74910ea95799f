// `svc keys`: making signing keys.

import { generateKeyFile, SignerKeyError } from '@svc/plugin-audit/log'
import { Command } from 'commander'
import { type CliIo, processIo } from './io.js'

export function keysCommand(io: CliIo = processIo()): Command {
  const keys = new Command('keys').description('signing keys of the audit log')
  keys
    .command('generate')
    .description('write a fresh Ed25519 key, readable by its owner only')
    .requiredOption('--out <file>', 'where to write it; an existing file is never overwritten')
    .action((options: { out: string }) => generate(options.out, io))
  return keys
}

async function generate(path: string, io: CliIo): Promise<void> {
  try {
    const key = generateKeyFile(path)
    await io.out(`key id      ${key.keyId}\npublic key  ${key.publicKey}\n`)
  } catch (error) {
    if (!(error instanceof SignerKeyError)) throw error
    io.err(`svc-sdk keys generate: ${error.message}\n`)
    io.exit(1)
  }
}
