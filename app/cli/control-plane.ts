// `svc control-plane`: the reference control plane as a process, and the keys it knows.
import { messageOf } from '@svc/core'
import { Command, InvalidArgumentError } from 'commander'
import { pino } from 'pino'
import { addKey } from '../control-plane/key-file.js'
import { type CliIo, processIo } from './io.js'

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
}

const maxExpirySec = 7 * 86_400

export function controlPlaneCommand(io: CliIo = processIo()): Command {
  // Options of this command would be required of its subcommand too, so `serve` checks them.
  return new Command('control-plane')
    .enablePositionalOptions()
    .description('receive uploaded logs: two endpoints over any S3-compatible bucket')
    .option('--bucket <name>', 'where the logs go (required)')
    .option('--keys <file>', 'the key file (required); `npx svc-sdk control-plane add-key` writes it')
    .option('--port <n>', 'port to listen on; 0 picks a free one', portOf, 8790)
    .option('--host <address>', 'address to listen on', '127.0.0.1')
    .option('--prefix <text>', 'put before every key in the bucket')
    .option('--expires <seconds>', 'how long an upload URL is good for', secondsOf, 900)
    .option('--endpoint <url>', 'of a store that is not AWS (default: AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL)')
    .option('--region <name>', 'region of the store (default: AWS_REGION)')
    .action((flags: ServeFlags) => serve(flags))
    .addCommand(
      new Command('add-key')
        .description('make an API key and add its hash to the key file; the key is printed once')
        .requiredOption('--keys <file>', 'the key file; made, mode 0600, where it is missing')
        .requiredOption('--tenant <tenant>', 'whose key it is')
        .requiredOption('--environment <name>', 'such as prod')
        .requiredOption('--client-name <name>', 'the client that uploads')
        .requiredOption('--client-version <version>', 'its version')
        .action((flags: AddKeyFlags) => add(flags, io)),
    )
}

async function add(flags: AddKeyFlags, io: CliIo): Promise<void> {
  const { keys, tenant, environment: env, clientName, clientVersion } = flags
  try {
    await io.out(`${addKey(keys, { tenant, env, clientName, clientVersion }, new Date())}\n`)
  } catch (fault) {
    io.err(`svc-sdk control-plane add-key: ${messageOf(fault)}\n`)
    io.exit(1)
  }
}

async function serve({ bucket, keys, expires, ...flags }: ServeFlags): Promise<void> {
  if (bucket === undefined || keys === undefined) {
    throw new Error('control-plane: --bucket <name> and --keys <file> are needed')
  }
  const logger = pino({ name: 'svc' }, pino.destination({ dest: 1, sync: true }))
  const { runControlPlane } = await import('../control-plane/run.js')
  const server = await runControlPlane({ ...flags, bucket, keys, expiresSec: expires }, process.env, logger)
  let closing = false
  const close = (signal: NodeJS.Signals): void => {
    if (closing) return
    closing = true
    logger.info({ signal }, 'closing')
    server.close().then(
      () => process.exit(0),
      (fault: unknown) => {
        logger.error({ err: fault }, 'did not close cleanly')
        process.exit(1)
      },
    )
  }
  process.on('SIGTERM', close)
  process.on('SIGINT', close)
  logger.info({ url: server.url }, 'listening')
}

function portOf(text: string): number {
  const port = Number(text)
  if (!/^\d+$/.test(text) || port > 65535) throw new InvalidArgumentError('expected 0 to 65535')
  return port
}

function secondsOf(text: string): number {
  const seconds = Number(text)
  if (!/^\d+$/.test(text) || seconds < 1 || seconds > maxExpirySec) {
    throw new InvalidArgumentError(`expected 1 to ${maxExpirySec} seconds`)
  }
  return seconds
}
