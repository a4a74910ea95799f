// `svc stdio`: a governed MCP server over standard input and output, for the configuration of a client.
import { resolve } from 'node:path'
import type { Writable } from 'node:stream'
import { formatNameSegment, parseNameSegment } from '@svc/core/match'
import { Command } from 'commander'
import { lineLogger } from '../gateway/container.js'
import { serverNameOf } from '../stdio-gateway/command-target.js'
import { type StdioGateway, serveStdio } from '../stdio-gateway/serve.js'
import { signInCredentials } from '../stdio-gateway/sign-in/credentials.js'
import { collectValue, portOf } from './command-guard.js'
import { reportStart } from './policy-file.js'

interface StdioFlags {
  readonly policy: string
  readonly name?: string
  readonly env: readonly string[]
  readonly dir?: string
  readonly log?: string
  readonly callbackPort: number
}

const STDERR = 2

export function stdioCommand(): Command {
  return new Command('stdio')
    .description('an MCP server over stdio behind a policy, for the configuration of a client')
    .requiredOption('--policy <file>', 'the policy file')
    .option(
      '--name <name>',
      'the name of the server in the policy and in records; without a command, one of its targets',
    )
    .option('--env <name>', 'a variable that the command gets (repeatable)', collectValue, [])
    .option('--dir <dir>', "keep the gateway's files here (overrides sec0Dir)")
    .option('--log <file>', 'append log lines to this file instead of standard error')
    .option('--callback-port <n>', 'where the issuer sends the user back to; 0 picks a free port', portOf, 0)
    .argument('[command...]', 'after --: the command of the MCP server, and its arguments')
    .action(run)
}

async function run([command, ...args]: readonly string[], flags: StdioFlags): Promise<void> {
  const output = reserveStdout()
  const { name = command === undefined ? undefined : serverNameOf(command, args) } = flags
  if (name === undefined && command !== undefined) {
    throw new Error(`${command} does not name the server; --name does, for the policy and the records`)
  }
  if (command === undefined && flags.env.length > 0) {
    throw new Error('--env: only for a command after --; the targets of the policy have `env` there')
  }
  const logger = lineLogger({ name: 'svc' }, flags.log ?? STDERR)
  try {
    const server = await serveStdio({
      policy: {
        policyFile: flags.policy,
        ...(flags.dir === undefined ? {} : { sec0Dir: resolve(flags.dir) }),
      },
      command:
        command === undefined || name === undefined
          ? undefined
          : { server: name, command, args, env: flags.env },
      name: name === undefined ? undefined : parseNameSegment(formatNameSegment(name)),
      input: process.stdin,
      output,
      logger,
      credentials: (issuer, host) =>
        signInCredentials(issuer, host, { callbackPort: flags.callbackPort, logger, env: process.env }),
    })
    await endOf(server, output)
    logger.info({}, 'closing')
    await server.close()
    process.exit(0)
  } catch (error) {
    reportStart('svc stdio', error)
  }
}

/** Keeps standard output for MCP alone: what modules of the policy print goes to standard error. */
function reserveStdout(): Writable {
  const { stdout } = process
  Object.defineProperty(process, 'stdout', { value: process.stderr })
  return stdout
}

/** Resolves when the client closes its end, stops reading, or sends a signal. */
function endOf(server: StdioGateway, output: Writable): Promise<unknown> {
  const signals = (['SIGTERM', 'SIGINT', 'SIGHUP'] as const).map(
    (signal) => new Promise((resolve) => process.once(signal, resolve)),
  )
  const unread = new Promise((resolve) => output.on('error', resolve))
  return Promise.race([server.ended, unread, ...signals])
}
