// `svc policy`: check a policy, explain its decision on a call, print its JSON Schema.
import { readFile } from 'node:fs/promises'
import { dirname, resolve } from 'node:path'
import type { Plugin } from '@svc/core'
import { messageOf } from '@svc/core/json'
import {
  type Diagnostic,
  formatDiagnostic,
  loadPolicy,
  type PolicyLayer,
  type PolicyResult,
  pluginUses,
  policySchema,
} from '@svc/core/policy'
import { Command, InvalidArgumentError, Option } from 'commander'
import { importPlugins } from '../gateway/custom-plugins.js'
import { builtinPlugins } from '../gateway/plugins.js'
import { type HostConfig, hostSchema } from '../policy/config.js'
import { hostFacts } from '../policy/facts.js'
import { type ExplainedCall, explainCall } from './explain.js'

/** The surroundings of a command: output, environment, exit status. */
export interface PolicyConsole {
  /** Writes whole lines to standard output. */
  print(line: string): void
  readonly env: Readonly<Record<string, string | undefined>>
  exit(code: number): void
}

const processConsole: PolicyConsole = {
  print: (line) => process.stdout.write(`${line}\n`),
  env: process.env,
  exit: (code) => {
    process.exitCode = code
  },
}

interface ExplainOptions {
  tenant: string
  server: string
  tool: string
  user?: string
  role?: string[]
  args: string
}

/** `svc policy check | explain | schema`. Diagnostics are the output, so they go to standard output. */
export function policyCommand(io: PolicyConsole = processConsole): Command {
  return new Command('policy')
    .description('check a policy, explain what it decides, print its JSON Schema')
    .addCommand(
      new Command('check')
        .description('tell every mistake in a policy; exit 1 when there is one')
        .argument('<file>', 'the policy file')
        .action((file: string) => check(file, io)),
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
        .action((file: string, options: ExplainOptions) => explain(file, options, io)),
    )
    .addCommand(
      new Command('schema')
        .description('print the JSON Schema of a policy, for editors')
        .argument('[file]', 'a policy whose plugins add their sections')
        .action((file: string | undefined) => schema(file, io)),
    )
}

async function check(file: string, io: PolicyConsole): Promise<void> {
  const result = await judged(file, io)
  if (result === undefined) return
  const { plugins } = result.policy
  io.print(`${file}: OK, ${plugins.length} stages: ${plugins.map(({ name }) => name).join(', ')}`)
}

async function schema(file: string | undefined, io: PolicyConsole): Promise<void> {
  const custom = file === undefined ? [] : await pluginsOf(file, io)
  const named = new Map([...builtinPlugins, ...custom].map((plugin) => [plugin.name, plugin]))
  io.print(JSON.stringify(policySchema(hostSchema, [...named.values()]), null, 2))
}

async function pluginsOf(file: string, io: PolicyConsole): Promise<Plugin[]> {
  const layers = [{ file, text: await readFile(file, 'utf8') }]
  const uses = pluginUses({ layers, env: io.env })
  const imported = await importPlugins(uses, builtinPlugins, dirname(resolve(file)))
  return [...imported.values()].map((plugin) => {
    if (plugin instanceof Error) throw plugin
    return plugin
  })
}

async function explain(file: string, options: ExplainOptions, io: PolicyConsole): Promise<void> {
  const result = await judged(file, io)
  if (result === undefined) return
  const call: ExplainedCall = {
    tenant: options.tenant,
    server: options.server,
    tool: options.tool,
    roles: options.role ?? [],
    args: options.args,
    ...(options.user === undefined ? {} : { user: options.user }),
  }
  const baseDir = dirname(resolve(file))
  for (const line of await explainCall(result.policy, call, baseDir)) io.print(line)
}

/** Prints warnings and mistakes; undefined, with exit status 1, when the policy has a mistake. */
async function judged(file: string, io: PolicyConsole) {
  let text: string
  try {
    text = await readFile(file, 'utf8')
  } catch (fault) {
    io.print(`${file} cannot be read: ${messageOf(fault)}`)
    io.exit(1)
    return undefined
  }
  const result = await loadWhole([{ file, text }], dirname(resolve(file)), io.env)
  const warnings = result.ok ? result.policy.warnings : result.warnings
  for (const line of [
    ...(result.ok ? [] : result.mistakes.map(formatDiagnostic)),
    ...warnings.map(warningLine),
  ]) {
    io.print(line)
  }
  if (result.ok) return result
  io.exit(1)
  return undefined
}

function warningLine(warning: Diagnostic): string {
  return `warning: ${formatDiagnostic(warning)}`
}

async function loadWhole(
  layers: readonly PolicyLayer[],
  baseDir: string,
  env: PolicyConsole['env'],
): Promise<PolicyResult<HostConfig>> {
  const custom = await importPlugins(pluginUses({ layers, env }), builtinPlugins, baseDir)
  return loadPolicy({
    layers,
    host: hostSchema,
    hostFacts,
    plugins: builtinPlugins,
    custom,
    env,
  })
}

function collected(role: string, roles: string[] | undefined): string[] {
  return [...(roles ?? []), role]
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
