// `svc policy`: check a policy, explain its decision on a call, print its JSON Schema.
import { messageOf, visibleInLine } from '@svc/core/json'
import { type Diagnostic, formatDiagnostic, type PolicyResult, policySchema } from '@svc/core/policy'
import { Command, InvalidArgumentError, Option } from 'commander'
import { refusedTools } from '../doctor/refused-tools.js'
import { builtinPlugins } from '../gateway/plugins.js'
import { isIdempotencyKey, keyExpected } from '../http/call-headers.js'
import { type HostConfig, hostSchema } from '../policy/config.js'
import { commandContext } from './command-context.js'
import { type ExplainedCall, explainCall } from './explain.js'
import { processIo } from './io.js'
import { baseDirOf, diagnosticsOf, loadPolicyFile } from './policy-file.js'

/** The surroundings of a command: output, environment, exit status. */
interface PolicyConsole {
  /** Writes whole lines to standard output. */
  print(line: string): void
  readonly env: Readonly<Record<string, string | undefined>>
  exit(code: number): void
}

const processConsole: PolicyConsole = {
  print: (line) => void processIo().out(`${line}\n`),
  env: process.env,
  exit: (code) => {
    process.exitCode = code
  },
}

interface CheckOptions {
  strict?: true
  json?: true
}

interface ExplainOptions {
  tenant: string
  server: string
  tool: string
  user?: string
  role?: string[]
  args: string
  idempotencyKey?: string
}

/** `svc policy check | explain | schema`. Diagnostics are the output, so they go to standard output. */
export function policyCommand(io: PolicyConsole = processConsole): Command {
  return new Command('policy')
    .description('check a policy, explain what it decides, print its JSON Schema')
    .addCommand(
      new Command('check')
        .description('tell every mistake in a policy; exit 1 when there is one')
        .argument('<file>', 'the policy file')
        .option('--strict', 'fail on warnings too')
        .option('--json', 'print the diagnostics as JSON')
        .action((file: string, options: CheckOptions) => check(file, options, io)),
    )
    .addCommand(
      new Command('explain')
        .description('tell which stage would decide what about a call; nothing is called, counted or written')
        .argument('<file>', 'the policy file')
        .requiredOption('--tenant <tenant>', 'tenant of the caller')
        .requiredOption('--server <server>', 'server name, as in targets')
        .requiredOption('--tool <name@version>', 'the tool; without a version it is unversioned')
        .option('--user <user>', 'user of the caller; without one it is a service agent')
        .addOption(new Option('--role <role>', 'a role of the caller; may be repeated').argParser(collected))
        .addOption(
          new Option('--args <json>', "the call's arguments, a JSON object")
            .default('{}')
            .argParser(jsonText),
        )
        .addOption(new Option('--idempotency-key <key>', "the call's idempotency key").argParser(keyText))
        .action((file: string, options: ExplainOptions) => explain(file, options, io)),
    )
    .addCommand(
      new Command('schema')
        .description('print the JSON Schema of a policy, for editors')
        .argument('[file]', 'a policy whose plugins add their sections')
        .action((file: string | undefined) => schema(file, io)),
    )
}

async function check(file: string, { strict, json }: CheckOptions, io: PolicyConsole): Promise<void> {
  const result = await checkedPolicy(file, io)
  const diagnostics = diagnosticsOf(result)
  const isOk = result.ok && (strict !== true || diagnostics.length === 0)
  if (!isOk) io.exit(1)
  const stages = result.ok ? result.policy.plugins.map(({ name }) => name) : []
  if (json === true) {
    io.print(JSON.stringify({ file, ok: isOk, stages, diagnostics: diagnostics.map(jsonOf) }, null, 2))
    return
  }
  for (const diagnostic of diagnostics) io.print(lineOf(diagnostic))
  if (isOk) io.print(`${file}: OK, ${stages.length} stages: ${stages.join(', ')}`)
  else if (result.ok) io.print(`${file}: refused by --strict, ${diagnostics.length} warnings`)
}

/** With what the tools of its servers show, of those that can be reached. */
async function checkedPolicy(file: string, { env }: PolicyConsole): Promise<PolicyResult<HostConfig>> {
  const result = await loadPolicyFile(file, env, true)
  if (!result.ok) return result
  const context = commandContext(result.policy, { baseDir: baseDirOf(file), env, warn: () => undefined })
  const refused = await refusedTools(result.policy, context)
  return refused.length === 0 ? result : loadPolicyFile(file, env, true, refused)
}

async function schema(file: string | undefined, io: PolicyConsole): Promise<void> {
  const result = file === undefined ? undefined : await loadPolicyFile(file, io.env, false)
  if (result?.ok === false) {
    for (const diagnostic of diagnosticsOf(result)) io.print(lineOf(diagnostic))
    io.exit(1)
    return
  }
  const plugins = [...builtinPlugins, ...(result?.policy.plugins ?? [])]
  const named = new Map(plugins.map((plugin) => [plugin.name, plugin]))
  io.print(JSON.stringify(policySchema(hostSchema, [...named.values()]), null, 2))
}

async function explain(file: string, options: ExplainOptions, io: PolicyConsole): Promise<void> {
  const result = await loadPolicyFile(file, io.env, false)
  for (const diagnostic of diagnosticsOf(result)) io.print(lineOf(diagnostic))
  if (!result.ok) {
    io.exit(1)
    return
  }
  const call: ExplainedCall = {
    tenant: options.tenant,
    server: options.server,
    tool: options.tool,
    roles: options.role ?? [],
    args: options.args,
    ...(options.user === undefined ? {} : { user: options.user }),
    ...(options.idempotencyKey === undefined ? {} : { idempotencyKey: options.idempotencyKey }),
  }
  for (const line of await explainCall(result.policy, call, baseDirOf(file))) io.print(line)
}

function lineOf(diagnostic: Diagnostic): string {
  const line = visibleInLine(formatDiagnostic(diagnostic))
  return diagnostic.severity === 'warning' ? `warning: ${line}` : line
}

function jsonOf({ severity, ...rest }: Diagnostic) {
  return { severity: severity === 'mistake' ? 'error' : severity, ...rest }
}

function collected(role: string, roles: string[] | undefined): string[] {
  return [...(roles ?? []), role]
}

function keyText(key: string): string {
  if (isIdempotencyKey(key)) return key
  throw new InvalidArgumentError(`idempotency-key: ${keyExpected}`)
}

function jsonText(text: string): string {
  try {
    const value: unknown = JSON.parse(text)
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) return text
  } catch (fault) {
    throw new InvalidArgumentError(`This is not JSON: ${messageOf(fault)}.`)
  }
  throw new InvalidArgumentError('A JSON object is wanted.')
}
