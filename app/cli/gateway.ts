// `svc gateway`: the gateway as a process. SIGTERM and SIGINT drain, SIGHUP reloads the policy.
import { resolve } from 'node:path'
import { bind, type Logger, tokens } from '@svc/core'
import { messageOf } from '@svc/core/json'
import { Command } from 'commander'
import { GatewayBuilder } from '../gateway/builder.js'
import { lineLogger } from '../gateway/container.js'
import { Gateway } from '../gateway/start.js'
import { readPolicyText } from '../policy/policy-text.js'
import { type CliIo, processIo } from './io.js'
import { withManual } from './manual.js'
import { portOf } from './option-values.js'
import { reportStart } from './policy-file.js'

interface GatewayFlags {
  readonly policy: string
  readonly port?: number
  readonly dir?: string
  readonly workers?: string
}

export function gatewayCommand(io: CliIo = processIo()): Command {
  const command = new Command('gateway')
    .description('start the gateway; SIGTERM drains and ends it, SIGHUP reloads the policy')
    .requiredOption('--policy <file>', 'the policy file')
    .option('--port <n>', "listen here instead of the policy's port; 0 picks a free one", portOf)
    .option('--dir <dir>', "keep the gateway's files here (overrides sec0Dir)")
    .option('--workers <n>', 'several processes (not available yet)')
    .action((flags: GatewayFlags) => run(flags, io))
  return withManual(command, { example: '--policy policy.yaml' })
}

async function run(flags: GatewayFlags, io: CliIo): Promise<void> {
  if (flags.workers !== undefined) throw new Error('--workers: not available yet')
  const logger = lineLogger({ name: 'svc' }, 1)
  try {
    const builder = new GatewayBuilder({
      policyFile: flags.policy,
      ...(flags.port === undefined ? {} : { port: flags.port }),
      ...(flags.dir === undefined ? {} : { sec0Dir: resolve(flags.dir) }),
      configure: (container) => bind<Logger>(container, tokens.Logger, { useValue: logger }),
    })
    const gateway = new Gateway(builder)
    const { url, adminUrl } = await gateway.ready()
    // A supervisor that waits for this line may send a signal at once, so the handlers must be installed.
    obeySignals(gateway, flags.policy, logger)
    logger.info({ url, ...(adminUrl === undefined ? {} : { adminUrl }) }, 'listening')
  } catch (error) {
    reportStart(error, io)
  }
}

function obeySignals(gateway: Gateway, file: string, logger: Logger): void {
  let closing = false
  const drain = (signal: NodeJS.Signals): void => {
    if (closing) return
    closing = true
    logger.info({ signal }, 'draining')
    gateway.close().then(
      () => {
        logger.info({}, 'closed')
        process.exit(0)
      },
      (error: unknown) => {
        logger.error({ err: error }, 'did not close cleanly')
        process.exit(1)
      },
    )
  }
  process.on('SIGTERM', drain)
  process.on('SIGINT', drain)
  process.on('SIGHUP', () => {
    Promise.resolve()
      .then(() => gateway.reload(readPolicyText(file)))
      .then(
        () => logger.info({ policy: file }, 'policy reloaded'),
        (error: unknown) =>
          logger.error({ reason: messageOf(error) }, 'policy not reloaded; the old one stays in force'),
      )
  })
}
