// The output of a gateway: at a terminal the allowed calls, the place of the log, and a line for each call; else lines of JSON.
import { isAbsolute, relative, resolve } from 'node:path'
import { bind, type DependencyContainer, policyTokens, type Redactor, resolveOptional } from '@svc/core'
import type { EffectivePolicy } from '@svc/core/policy'
import { recordListener } from '@svc/plugin-audit'
import { Option } from 'commander'
import type { Logger } from 'pino'
import { lineLogger } from '../gateway/defaults.js'
import type { HostConfig } from '../policy/config.js'
import type { Telemetry } from '../telemetry/open-telemetry.js'
import { CallLines, type Further } from './call-lines.js'
import type { WriteLine } from './io.js'
import { logLines } from './log-lines.js'
import { ownCommand, quoted } from './own-command.js'
import { baseDirOf } from './policy-file.js'
import { adminUrlOf, placesOf } from './policy-gateway.js'

export interface OutputFlags {
  readonly quiet?: true
  readonly logLevel?: string
}

export function quietOption(): Option {
  return new Option('--quiet', 'print warnings and errors only')
}

export function logLevelOption(): Option {
  const levels = ['debug', 'info', 'warn', 'error', 'silent']
  return new Option('--log-level <level>', 'print lines of the log from this level on').choices(levels)
}

/** The places of the records of a gateway, and of its approvals. */
export interface Started {
  /** The served targets, for the first line. */
  readonly title: string
  /** The URLs by the names of the servers. */
  readonly servers: Readonly<Record<string, string>>
  readonly policy: DependencyContainer
  readonly logDir: string
  /** Arguments by which `svc escalations` reaches the gateway; absent without a listener for approvals. */
  readonly approvals?: string | undefined
  /** The URL of the console, and where its token is; absent without an admin listener. */
  readonly console?: string | undefined
  /** A client's settings of these servers by their names. */
  readonly snippet?: Readonly<Record<string, object>> | undefined
}

export class GatewayOutput {
  readonly logger: Logger
  /** Gets each line of the log too. */
  onLine: (line: string) => void = () => undefined
  #write: WriteLine | undefined
  #calls: CallLines | undefined

  /** `write` is absent if nobody reads at a terminal; `file` then gets the lines of the log. */
  constructor(write: WriteLine | undefined, file: string | number, { quiet, logLevel }: OutputFlags) {
    const level = logLevel ?? (quiet === true ? 'warn' : 'info')
    const destination = write === undefined ? file : logLines(write)
    this.logger = lineLogger({ name: 'svc', level }, destination, (line) => this.onLine(line))
    if (write === undefined || quiet === true) return
    this.#write = write
    this.#calls = new CallLines(write)
  }

  /** Listens to records only if calls are shown. */
  bindTo(container: DependencyContainer): void {
    if (this.#calls !== undefined) bind(container, recordListener, { useValue: this.#calls.show })
  }

  /** Shows where more is to be found of each call. Call it in a process that does not print the start. */
  follow(describe: () => Pick<Started, 'logDir' | 'approvals'>): void {
    this.#calls?.use(furtherOf(describe()))
  }

  /** Prints `facts` as a line of the log, or at a terminal what a person has to know. */
  started(message: string, facts: object, describe: () => Started): void {
    const write = this.#write
    if (write === undefined) this.logger.info(facts, message)
    else {
      const started = describe()
      this.#calls?.use(furtherOf(started))
      printStart(write, started)
    }
  }
}

/** From now on, telemetry gets the lines of the log, redacted by what `redactor` returns. */
export function exportLines(
  output: GatewayOutput,
  telemetry: Telemetry | undefined,
  redactor: () => Redactor | undefined,
): void {
  if (telemetry !== undefined) output.onLine = (line) => telemetry.log(line, redactor())
}

function furtherOf({ logDir, approvals }: Pick<Started, 'logDir' | 'approvals'>): Further {
  const dir = shownPath(logDir)
  return {
    show: (traceId) => `${ownCommand()} audit show ${dir} --trace-id ${traceId}`,
    approve:
      approvals === undefined ? undefined : (id) => `${ownCommand()} escalations approve ${id} ${approvals}`,
    stats: `${ownCommand()} audit stats ${dir}`,
  }
}

function printStart(write: WriteLine, started: Started): void {
  const { title, servers, policy, logDir, approvals, console, snippet } = started
  const rule = resolveOptional(policy, policyTokens.denyRule)
  const rows: readonly (readonly [string, string | undefined])[] = [
    ['mode', modeOf(rule)],
    ['callers', resolveOptional(policy, policyTokens.admittedCallers)],
    ['tools', resolveOptional(policy, policyTokens.allowedTools)],
    ...Object.entries(servers).map(
      ([name, url], index) => [index === 0 ? 'servers' : '', `${name}  ${url}`] as const,
    ),
    ['log', shownPath(logDir)],
    ['approvals', approvals && `${ownCommand()} escalations list ${approvals}`],
    ['console', console],
  ]
  write({ text: title, style: 'bold' })
  for (const [name, value] of rows) {
    if (value !== undefined) write({ text: `  ${name.padEnd(11)}`, style: 'dim' }, { text: value })
  }
  if (snippet !== undefined) {
    write({ text: '  client     ', style: 'dim' }, { text: JSON.stringify({ mcpServers: snippet }) })
  }
}

function modeOf(
  rule: { readonly mode: 'observe' | 'enforce'; readonly denyOn?: readonly string[] } | undefined,
) {
  if (rule === undefined) return undefined
  if (rule.mode === 'observe') return 'observe: findings deny nothing, and are recorded'
  const { denyOn } = rule
  if (denyOn === undefined) return 'enforce: every finding denies'
  return denyOn.length === 0 ? 'enforce: no finding denies' : `enforce: ${denyOn.join(', ')} deny`
}

/** A path for a shell, from the working directory if it is below that. */
function shownPath(path: string): string {
  const near = relative(process.cwd(), path)
  return quoted(near === '' || near.startsWith('..') || isAbsolute(near) ? path : near)
}

/** Lines with the places of records and approvals. `file` is the policy's; `adminUrl` is that of a listener in this process. */
export function placesAtTerminal(
  policy: EffectivePolicy<HostConfig>,
  file: string | undefined,
  adminUrl: string | undefined,
): Pick<Started, 'logDir' | 'approvals' | 'console'> {
  const { logDir, admin } = placesOf(policy, file === undefined ? process.cwd() : baseDirOf(file))
  const { escalationRule, ruleEscalations, flowEscalations } = policyTokens
  const isObserved = resolveOptional(policy.container, policyTokens.denyRule)?.mode === 'observe'
  const escalates =
    !isObserved &&
    [escalationRule, ruleEscalations, flowEscalations].some((token) =>
      policy.container.isRegistered(token, true),
    )
  if (admin === undefined || (adminUrl === undefined && admin.port === 0)) return { logDir }
  const url = adminUrl ?? adminUrlOf('the policy', admin)
  const at = admin.tokenRef === undefined ? '' : `, with the token in ${admin.tokenRef}`
  const console = `${url}/console${at}`
  if (!escalates) return { logDir, console }
  if (file !== undefined && admin.port !== 0)
    return { logDir, console, approvals: `--policy ${shownPath(resolve(file))}` }
  const token = admin.tokenRef === undefined ? '' : ` --token-ref ${quoted(admin.tokenRef)}`
  return { logDir, console, approvals: `--admin ${url}${token}` }
}
