// The command `svc-control-plane`: the control plane as a process, and the keys that it accepts.
import { messageOf, visible } from '@svc/core/json'
import { Command, InvalidArgumentError } from 'commander'
import { pino } from 'pino'
import { startControlPlane } from './control-plane.js'
import { addKey } from './key-file.js'

interface ServeFlags {
  readonly bucket?: string
  readonly keys?: string
  readonly host: string
  readonly port: number
  readonly prefix?: string
  readonly expires: number
  readonly endpoint?: string
  readonly region?: string
}

interface AddKeyFlags {
  readonly keys: string
  readonly tenant: string
  readonly environment: string
  readonly clientName: string
  readonly clientVersion: string
  readonly read?: boolean
}

const maxExpirySec = 7 * 86_400

/** Runs the command with these arguments. `name` is how the user called it, for help and errors. */
export async function main(args: readonly string[], name = 'svc-control-plane'): Promise<void> {
  try {
    await commandNamed(name).parseAsync(args, { from: 'user' })
  } catch (error) {
    output.writeErr(`${name}: ${messageOf(error)}\n`)
    process.exitCode = 1
  }
}

const output = {
  writeOut: (text: string) => void process.stdout.write(visible(text)),
  writeErr: (text: string) => void process.stderr.write(visible(text)),
}

function commandNamed(name: string): Command {
  const addKeyCommand = new Command('add-key')
    .description('make an API key and add its hash to the key file; the key is printed once')
    .requiredOption('--keys <file>', 'the key file; created with mode 0600 if it is missing')
    .requiredOption('--tenant <tenant>', 'tenant of the client')
    .requiredOption('--environment <name>', 'environment of the client, such as prod')
    .requiredOption('--client-name <name>', 'the client that uploads')
    .requiredOption('--client-version <version>', 'its version')
    .option('--read', 'a key that may download, and not upload, for `svc audit fetch`')
    .configureOutput(output)
    .showHelpAfterError(`(see ${name} add-key --help)`)
    .action(printNewKey)
  // Commander would require this command's required options of its subcommand too, so `serve` checks them.
  return new Command(name)
    .enablePositionalOptions()
    .description('receive uploaded logs: an HTTP interface to any S3-compatible bucket')
    .option('--bucket <name>', 'the bucket that receives the logs (required)')
    .option('--keys <file>', `the key file (required); \`${name} add-key\` writes it`)
    .option('--port <n>', 'port to listen on; 0 picks a free one', wholeNumber(0, 65_535), 8790)
    .option('--host <address>', 'address to listen on', '127.0.0.1')
    .option('--prefix <text>', 'prefix of every key in the bucket')
    .option('--expires <seconds>', 'lifetime of an upload URL', wholeNumber(1, maxExpirySec), 900)
    .option('--endpoint <url>', 'a store other than AWS (default: AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL)')
    .option('--region <name>', 'region of the store (default: AWS_REGION)')
    .configureOutput(output)
    .showHelpAfterError(`(see ${name} --help)`)
    .action(serve)
    .addCommand(addKeyCommand)
}

function printNewKey(flags: AddKeyFlags): void {
  const { keys, tenant, environment: env, clientName, clientVersion, read = false } = flags
  const owner = { tenant, env, clientName, clientVersion }
  process.stdout.write(`${addKey(keys, owner, new Date(), read ? 'read' : 'write')}\n`)
}

async function serve({ bucket, keys, expires, ...flags }: ServeFlags): Promise<void> {
  if (bucket === undefined || keys === undefined) {
    throw new Error('--bucket <name> and --keys <file> are required')
  }
  // Synchronous, so that the last lines are written before the process exits.
  const logger = pino(
    { name: 'svc-control-plane', hooks: { streamWrite: visible } },
    pino.destination({ dest: 1, sync: true }),
  )
  const server = await startControlPlane({ ...flags, bucket, keys, expiresSec: expires }, process.env, logger)
  let closing = false
  const close = (signal: NodeJS.Signals): void => {
    if (closing) return
    closing = true
    logger.info({ signal }, 'closing')
    server.close().then(
      () => process.exit(0),
      (error: unknown) => {
        logger.error({ err: error }, 'did not close cleanly')
        process.exit(1)
      },
    )
  }
  process.on('SIGTERM', close)
  process.on('SIGINT', close)
  logger.info({ url: server.url }, 'listening')
}

function wholeNumber(min: number, max: number): (text: string) => number {
  return (text) => {
    const number = Number(text)
    if (/^\d+$/.test(text) && number >= min && number <= max) return number
    throw new InvalidArgumentError(`expected ${min} to ${max}`)
  }
}
