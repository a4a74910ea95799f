// `svc gateway`: the gateway as a process. SIGTERM and SIGINT drain, SIGHUP reloads the policy.

import { resolve } from 'node:path'
import type { Logger } from '@svc/core'
import { ALL_SERVERS_PATH } from '@svc/core/http'
import { defined } from '@svc/core/json'
import { formatNameSegment } from '@svc/core/match'
import { Command, Option } from 'commander'
import type { GatewayBuilder } from '../gateway/builder.js'
import type { GatewaySettings } from '../gateway/options.js'
import type { ReloadCause } from '../gateway/reload-records.js'
import type { Preset } from '../policy/presets/preset-policy.js'
import { type PreparedPreset, preparePreset } from '../policy/presets/preset-start.js'
import { parseTarget } from '../policy/presets/target-argument.js'
import {
  GatewayOutput,
  logLevelOption,
  type OutputFlags,
  placesAtTerminal,
  quietOption,
} from './gateway-terminal.js'
import type { SeveralWorkers } from './gateway-workers.js'
import { type CliIo, processIo } from './io.js'
import { withManual } from './manual.js'
import { openGateway } from './open-gateway.js'
import { collectValue, portOf, workersOf } from './option-values.js'
import { reportStart } from './policy-file.js'
import { type AskedTarget, adminPortOption, askedTarget, presetOption } from './preset-options.js'

interface GatewayFlags extends OutputFlags {
  readonly policy?: string
  readonly target?: readonly string[]
  readonly preset?: Preset
  readonly watch?: true
  readonly env?: readonly string[]
  readonly adminPort: number
  readonly printPolicy?: true
  readonly port?: number
  readonly dir?: string
  readonly workers?: number | 'auto'
}

/** The port of a gateway without a policy. */
const defaultPort = 8787

export function gatewayCommand(io: CliIo = processIo()): Command {
  const command = new Command('gateway')
    .option('--policy <file>', 'the policy file')
    .addOption(
      new Option(
        '--target <target>',
        'without a policy: [NAME=]URL or [NAME=]COMMAND of a server; may be repeated',
      )
        .argParser(collectValue)
        .conflicts('policy'),
    )
    .addOption(presetOption().conflicts('policy'))
    .option('--watch', 'load the policy file anew when it changes')
    .option('--env <name>', 'a variable that the commands get; may be repeated', collectValue)
    .addOption(adminPortOption('with --target: where the console is'))
    .option('--print-policy', 'print the policy of the preset, and exit')
    .option('--port <n>', "listen here instead of the policy's port; 0 picks a free one", portOf)
    .option('--dir <dir>', "keep the gateway's files here (overrides sec0Dir)")
    .addOption(quietOption())
    .addOption(logLevelOption())
    .option('--workers <n>', 'number of processes that serve; auto: one for each core', workersOf)
    .action((flags: GatewayFlags) => run(flags, command, io))
  return withManual(command, { example: '--policy policy.yaml' })
}

async function run(flags: GatewayFlags, command: Command, io: CliIo): Promise<void> {
  if (flags.watch === true && flags.policy === undefined) command.error('--watch is for --policy')
  const { policy, preset } = await sourceOf(flags, command)
  if (flags.printPolicy === true) {
    if (preset === undefined) command.error('--print-policy is for --target')
    return io.out(preset.policy.policyYaml)
  }
  const settings = {
    ...policy,
    ...defined({ port: flags.port }),
    ...(flags.dir === undefined ? {} : { sec0Dir: resolve(flags.dir) }),
  }
  try {
    const count = await countOf(flags)
    const running = await (count > 1
      ? startSeveral({ count, settings, isPreset: preset !== undefined, flags }, io)
      : startOne(settings, preset !== undefined, flags, io))
    const { builder, output, listening } = running
    const { url, adminUrl } = listening
    for (const { named, warning } of preset?.asked ?? [])
      if (warning !== undefined) output.logger.warn({ server: named.name }, warning)
    // A supervisor that waits for this line may send a signal at once, so the handlers must be installed.
    obeySignals(running, flags.policy, output.logger)
    const servers = endpointsOf(url, Object.keys(builder.host.targets))
    const effective = await builder.policy()
    const facts = { url, adminUrl, ...(preset && { endpoints: servers, log: preset.logDir }) }
    output.started('listening', facts, () => ({
      title: `svc-sdk gateway listens on ${url}; Ctrl+C ends it`,
      servers,
      policy: effective.container,
      ...placesAtTerminal(effective, flags.policy, adminUrl),
      snippet: preset && snippetOf(servers),
    }))
  } catch (error) {
    reportStart(error, io)
  }
}

/** A gateway in this process, or the supervisor of several. */
interface RunningGateway {
  /** Loads the file of the policy; the gateway logs what comes of it. */
  reload(cause: ReloadCause): void
  /** Rejects if it did not end cleanly. */
  close(): Promise<void>
  readonly builder: GatewayBuilder
  readonly output: GatewayOutput
  readonly listening: { readonly url: string; readonly adminUrl?: string | undefined }
}

async function startOne(
  settings: GatewaySettings,
  isPreset: boolean,
  flags: GatewayFlags,
  io: CliIo,
): Promise<RunningGateway> {
  // Without a policy all gateways of the user share the port for approvals, and what waits for one.
  const { gateway, builder, output, close } = await openGateway(io, flags, {
    settings,
    sharesAdmin: isPreset,
  })
  const listening = await gateway.ready()
  if (flags.watch === true && flags.policy !== undefined) gateway.watchPolicy(flags.policy)
  return {
    // The gateway logs why it was refused.
    reload: (cause) => void gateway.reloadFile(cause).catch(() => undefined),
    close,
    builder,
    output,
    listening,
  }
}

async function startSeveral(several: SeveralWorkers, io: CliIo): Promise<RunningGateway> {
  const { startWorkers } = await import('./gateway-workers.js')
  const output = new GatewayOutput(io.outLine, 1, several.flags)
  const { supervisor, ...running } = await startWorkers(several, output)
  return { ...running, output, reload: () => supervisor.reload() }
}

async function countOf({ workers = 1 }: GatewayFlags): Promise<number> {
  if (workers !== 'auto') return workers
  const { availableCores } = await import('../workers/worker-count.js')
  return availableCores()
}

interface Source {
  readonly policy: Pick<GatewaySettings, 'policyFile' | 'policyYaml'>
  /** Absent with a policy file. */
  readonly preset?: PreparedPreset & { readonly asked: readonly AskedTarget[] }
}

async function sourceOf(flags: GatewayFlags, command: Command): Promise<Source> {
  const {
    policy,
    target = [],
    preset: name = 'observe',
    env = [],
    port = defaultPort,
    adminPort,
    dir,
  } = flags
  if (policy !== undefined) return { policy: { policyFile: policy } }
  if (target.length === 0)
    command.error('give --policy FILE, or --target URL|COMMAND for a server without a policy')
  const asked = await Promise.all(target.map((text) => askedTarget(parseTarget(text, env))))
  const targets = asked.map(({ named }) => named)
  const place = { port, adminPort, hasConsole: true, logName: 'gateway', dir }
  const preset = await preparePreset({ preset: name, targets, ...place, env: process.env })
  return { policy: preset.policy, preset: { ...preset, asked } }
}

/** The MCP URLs by the names of their servers. */
function endpointsOf(url: string, servers: readonly string[]): Record<string, string> {
  return Object.fromEntries(
    servers.map((name) => [name, `${url}${ALL_SERVERS_PATH}/${formatNameSegment(name)}`]),
  )
}

/** The settings of a client that connects by URL. */
function snippetOf(servers: Readonly<Record<string, string>>): Record<string, object> {
  return Object.fromEntries(Object.entries(servers).map(([name, url]) => [name, { type: 'http', url }]))
}

/** Without a policy file there is nothing to reload, and SIGHUP, which a closed terminal sends, ends the gateway. */
function obeySignals(gateway: RunningGateway, file: string | undefined, logger: Logger): void {
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
  process.on('SIGHUP', (signal) => {
    if (file === undefined) return drain(signal)
    gateway.reload({ by: signal })
  })
}
