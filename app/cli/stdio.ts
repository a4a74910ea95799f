// `svc stdio`: a governed MCP server over standard input and output, for the configuration of a client.
import { resolve } from 'node:path'
import type { Writable } from 'node:stream'
import { CORE_VERSION } from '@svc/core'
import { formatNameSegment, parseNameSegment } from '@svc/core/match'
import { Command } from 'commander'
import { type Preset, presets } from '../policy/presets/preset-policy.js'
import { preparePreset } from '../policy/presets/preset-start.js'
import { targetOfWords } from '../policy/presets/target-argument.js'
import { serverNameOf } from '../stdio/gateway/command-target.js'
import { type StdioGateway, type StdioGatewayOptions, serveStdio } from '../stdio/gateway/serve.js'
import { signInCredentials } from '../stdio/gateway/sign-in/credentials.js'
import { openTelemetry } from '../telemetry/open-telemetry.js'
import {
  exportLines,
  GatewayOutput,
  logLevelOption,
  type OutputFlags,
  placesAtTerminal,
  quietOption,
} from './gateway-terminal.js'
import { processIo } from './io.js'
import { withManual } from './manual.js'
import { collectValue, portOf } from './option-values.js'
import { launcher } from './own-command.js'
import { reportStart } from './policy-file.js'
import { adminPortOption, presetOption } from './preset-options.js'

interface StdioFlags extends OutputFlags {
  readonly policy?: string
  readonly preset?: Preset
  readonly printPolicy?: true
  readonly adminPort: number
  readonly name?: string
  readonly env?: readonly string[]
  readonly cwd?: string
  readonly dir?: string
  readonly log?: string
  readonly callbackPort: number
}

const STDERR = 2

export function stdioCommand(): Command {
  const command = new Command('stdio')
    .option('--policy <file>', 'the policy file')
    .addOption(presetOption().conflicts('policy'))
    .addOption(adminPortOption())
    .option('--print-policy', 'print the policy of the preset, and exit')
    .option(
      '--name <name>',
      'the name of the server in the policy and in records; without a command, one of its targets',
    )
    .option(
      '--env <name>',
      'a variable that the command gets, or NAME=file://PATH; may be repeated',
      collectValue,
    )
    .option('--cwd <dir>', 'start commands whose target has no `cwd` here; . is where the client starts this')
    .option('--dir <dir>', "keep the gateway's files here (overrides sec0Dir)")
    .option('--log <file>', 'append log lines to this file instead of standard error')
    .addOption(quietOption())
    .addOption(logLevelOption())
    .option('--callback-port <n>', 'where the issuer sends the user back to; 0 picks a free port', portOf, 0)
    .argument(
      '[command...]',
      'after --: the command of the MCP server, and its arguments; with a preset also its URL',
    )
    .action(run)
  return withManual(command, {
    example: '--preset guard -- node_modules/.bin/mcp-server-everything',
  })
}

async function run(words: readonly string[], flags: StdioFlags, command: Command): Promise<void> {
  const { policy, preset } = flags
  if (preset !== undefined) return runPreset(preset, words, flags)
  if (policy === undefined) command.error(`give --policy FILE, or --preset ${presets.join('|')}`)
  if (flags.printPolicy === true) command.error('--print-policy is for --preset')
  return serve({ policy: { policyFile: policy }, ...serverOf(words, flags) }, flags)
}

async function runPreset(preset: Preset, words: readonly string[], flags: StdioFlags): Promise<void> {
  const { name, env = [], dir, adminPort } = flags
  const target = targetOfWords(words, { name, env, howToName: 'give --name NAME' })
  const parts = { preset, targets: [target], port: 0, adminPort, logName: target.name, dir, env: process.env }
  const { policy, logDir } = await preparePreset(parts)
  if (flags.printPolicy === true) return processIo().out(policy.policyYaml)
  return serve({ policy, command: undefined, name: target.name, logDir }, flags)
}

/** The server beside the targets of the policy, and the name of what the client gets. */
function serverOf(
  [command, ...args]: readonly string[],
  { name = command === undefined ? undefined : serverNameOf(command, args), env = [] }: StdioFlags,
): Pick<StdioGatewayOptions, 'command' | 'name'> {
  if (command === undefined) {
    if (env.length === 0) return { command, name: name === undefined ? name : checkedName(name) }
    throw new Error('--env: only for a command after --; the targets of the policy have `env` there')
  }
  if (name === undefined) {
    throw new Error(`${command} does not name the server; --name does, for the policy and the records`)
  }
  return { command: { server: name, command, args, env }, name: checkedName(name) }
}

function checkedName(name: string): string {
  return parseNameSegment(formatNameSegment(name))
}

interface Served extends Pick<StdioGatewayOptions, 'policy' | 'command' | 'name'> {
  /** The log of a preset. */
  readonly logDir?: string
}

async function serve({ logDir, ...served }: Served, flags: StdioFlags): Promise<void> {
  const { cwd, dir, log, callbackPort } = flags
  const terminal = log === undefined ? processIo().errLine : undefined
  const stdout = reserveStdout()
  const output = new GatewayOutput(terminal, log ?? STDERR, flags)
  const { logger } = output
  const telemetry = await openTelemetry(process.env, { version: CORE_VERSION }, logger)
  try {
    const server = await serveStdio({
      ...served,
      ...(cwd === undefined ? {} : { cwd: resolve(cwd) }),
      policy: { ...served.policy, ...(dir === undefined ? {} : { sec0Dir: resolve(dir) }) },
      input: process.stdin,
      output: stdout,
      logger,
      configure: (container) => {
        telemetry?.bindTo(container)
        output.bindTo(container)
      },
      credentials: (issuer, host) =>
        signInCredentials(issuer, host, { callbackPort, logger, env: process.env }),
    })
    const { path, policy, adminUrl } = server
    exportLines(output, telemetry, server.redactor)
    output.started('serving', { path, policy_sha256: policy.sha256, log: logDir, adminUrl }, () => ({
      title: 'svc-sdk stdio waits for an MCP client on standard input; clients start it themselves',
      servers: {},
      policy: policy.container,
      ...placesAtTerminal(policy, flags.policy, adminUrl),
      snippet: { [served.name ?? 'all']: launcher(process.argv.slice(2)) },
    }))
    await endOf(server, stdout)
    logger.info({}, 'closing')
    await server.close()
    await telemetry?.close()
    process.exit(0)
  } catch (error) {
    reportStart(error)
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
