// `svc policy`: check a policy, explain its decision on a call, print its JSON Schema.
import { messageOf, visibleInLine } from '@svc/core/json'
import { type Diagnostic, describeDiagnostic, type PolicyResult, policySchema } from '@svc/core/policy'
import { Command, InvalidArgumentError, Option } from 'commander'
import { z } from 'zod'
import { toolWarnings } from '../doctor/unmatched-patterns.js'
import { isIdempotencyKey, keyExpected } from '../http/call-headers.js'
import { type HostConfig, hostSchema } from '../policy/config.js'
import { builtinPlugins, sectionRules } from '../policy/plugins.js'
import { commandContext } from '../policy-tools/explain/command-context.js'
import type { ExplainedCall, ExplainedVerdict } from '../policy-tools/explain/explain-call.js'
import { AdminError } from './admin-client.js'
import { type AdminFlags, adminClientOf, parseAdminResponse, withAdminOptions } from './admin-options.js'
import { type CliIo, type Environment, processIo } from './io.js'
import { NO_VERDICT, withManual } from './manual.js'
import { collectValue } from './option-values.js'
import { policyDiffCommand } from './policy-diff.js'
import { baseDirOf, diagnosticsOf, loadPolicyFile } from './policy-file.js'
import { policyReplayCommand } from './policy-replay.js'
import { policySuggestCommand } from './policy-suggest.js'
import { policyTestCommand } from './policy-test.js'
import { table } from './table.js'

interface CheckOptions {
  strict?: true
  inProcess?: true
  json?: true
}

interface SchemaOptions {
  tests?: true
}

interface ExplainOptions {
  tenant: string
  server: string
  tool: string
  user?: string
  role?: readonly string[]
  args: string
  idempotencyKey?: string
  expect?: string
  json?: true
}

/** `svc policy check | explain | schema`. Diagnostics are the output, so they go to standard output. */
export function policyCommand(io: CliIo = processIo(), env: Environment = process.env): Command {
  const checking = new Command('check')
    .description('report every mistake in a policy, key files included')
    .argument('<file>', 'the policy file')
    .option('--strict', 'fail on warnings too')
    .option('--in-process', 'for use in a program, without a listener')
    .option('--json', 'print the diagnostics as JSON')
    .action((file: string, options: CheckOptions) => check(file, options, io, env))
  const explaining = new Command('explain')
    .description('report what each stage would decide about a call; nothing is called, counted or written')
    .argument('<file>', 'the policy file')
    .requiredOption('--tenant <tenant>', 'tenant of the caller')
    .requiredOption('--server <server>', 'server name, as in targets')
    .requiredOption('--tool <name@version>', 'the tool; without a version it is unversioned')
    .option('--user <user>', 'user of the caller; without one it is a service agent')
    .addOption(new Option('--role <role>', 'a role of the caller; may be repeated').argParser(collectValue))
    .addOption(
      new Option('--args <json>', "the call's arguments, a JSON object").default('{}').argParser(jsonText),
    )
    .addOption(new Option('--idempotency-key <key>', "the call's idempotency key").argParser(keyText))
    .addOption(
      new Option('--expect <decision>', 'judge whether this is the decision').choices([
        'allow',
        'deny',
        'confirm',
        'escalate',
      ]),
    )
    .option('--json', 'print the decision and the lines as JSON')
    .action((file: string, options: ExplainOptions) => explain(file, options, io, env))
  const printing = new Command('schema')
    .description('print the JSON Schema of a policy, for editors')
    .argument('[file]', 'a policy whose plugins add their sections')
    .option('--tests', 'that of the files of `policy test`')
    .action(async (file: string | undefined, { tests }: SchemaOptions) => {
      if (tests !== true) return schema(file, io, env)
      const { testFileJsonSchema } = await import('../policy-tools/test/test-file.js')
      await printJson(testFileJsonSchema(), io)
    })
  return new Command('policy')
    .addCommand(withManual(checking, { example: 'policy.yaml', verdicts: ['no mistake', 'a mistake'] }))
    .addCommand(
      withManual(explaining, {
        example: 'policy.yaml --tenant acme --server files --tool read --expect allow',
        verdicts: ['explained, and as --expect says', 'not as --expect says'],
      }),
    )
    .addCommand(policyTestCommand(io, env))
    .addCommand(policyDiffCommand(io, env))
    .addCommand(policyShadowCommand(io, env))
    .addCommand(policyReplayCommand(io, env))
    .addCommand(policySuggestCommand(io, env))
    .addCommand(withManual(printing, { example: '> svc.schema.json' }))
}

async function check(
  file: string,
  { strict, json, inProcess }: CheckOptions,
  io: CliIo,
  env: Environment,
): Promise<void> {
  const result =
    inProcess === true
      ? await loadPolicyFile(file, env, true, { isInProcess: true })
      : await checkedPolicy(file, env)
  const diagnostics = diagnosticsOf(result)
  const isOk = result.ok && (strict !== true || diagnostics.length === 0)
  if (!isOk) io.exit(1)
  const notes = result.ok ? result.policy.notes : []
  const stages = result.ok ? result.policy.plugins.map(({ name }) => name) : []
  if (json === true) {
    await io.out(
      `${JSON.stringify({ file, ok: isOk, stages, diagnostics: [...diagnostics, ...notes].map(jsonOf) }, null, 2)}\n`,
    )
    return
  }
  for (const diagnostic of [...diagnostics, ...notes]) await io.out(`${lineOf(diagnostic)}\n`)
  if (isOk) await io.out(`${file}: OK, ${stages.length} stages: ${stages.join(', ')}\n`)
  else if (result.ok) await io.out(`${file}: refused by --strict, ${diagnostics.length} warnings\n`)
}

/** The result with the tools of the policy's servers, if they can be reached. */
async function checkedPolicy(file: string, env: Environment): Promise<PolicyResult<HostConfig>> {
  const result = await loadPolicyFile(file, env, true)
  if (!result.ok) return result
  const context = commandContext(result.policy, { baseDir: baseDirOf(file), env, warn: () => undefined })
  const found = await toolWarnings(result.policy, context)
  return found.length === 0 ? result : loadPolicyFile(file, env, true, { found })
}

async function schema(file: string | undefined, io: CliIo, env: Environment): Promise<void> {
  const result = file === undefined ? undefined : await loadPolicyFile(file, env, false)
  if (result?.ok === false) {
    for (const diagnostic of diagnosticsOf(result)) await io.out(`${lineOf(diagnostic)}\n`)
    io.exit(1)
    return
  }
  const plugins = [...builtinPlugins, ...(result?.policy.plugins ?? [])]
  const named = new Map(plugins.map((plugin) => [plugin.name, plugin]))
  await printJson(policySchema(hostSchema, [...named.values()], sectionRules.required), io)
}

function printJson(value: object, io: CliIo): Promise<void> {
  return io.out(`${JSON.stringify(value, null, 2)}\n`)
}

async function explain(file: string, options: ExplainOptions, io: CliIo, env: Environment): Promise<void> {
  const result = await loadPolicyFile(file, env, false)
  const diagnostics = diagnosticsOf(result).map(lineOf)
  if (!result.ok) {
    io.exit(NO_VERDICT)
    return io.out(diagnostics.map((line) => `${line}\n`).join(''))
  }
  const { expect, json } = options
  const call: ExplainedCall = { ...options, roles: options.role ?? [] }
  const { explainCall } = await import('../policy-tools/explain/explain-call.js')
  const { verdict, lines } = await explainCall(result.policy, call, { baseDir: baseDirOf(file), env })
  io.exit(exitOf(verdict, expect))
  if (json === true) return printJson({ verdict, lines: [...diagnostics, ...lines] }, io)
  const isOther = expect !== undefined && verdict.decision !== expect
  const judged = isOther ? [`NOT AS EXPECTED: ${verdict.decision}, not ${expect}`] : []
  await io.out([...diagnostics, ...lines, ...judged].map((line) => `${line}\n`).join(''))
}

function exitOf({ decision }: ExplainedVerdict, expect: string | undefined): number {
  if (expect === undefined || decision === expect) return 0
  return decision === 'unknown' ? NO_VERDICT : 1
}

function lineOf(diagnostic: Diagnostic): string {
  const line = describeDiagnostic(diagnostic)
  return diagnostic.severity === 'mistake' ? line : `${diagnostic.severity}: ${line}`
}

function jsonOf({ severity, ...rest }: Diagnostic) {
  return { severity: severity === 'mistake' ? 'error' : severity, ...rest }
}

function keyText(key: string): string {
  if (isIdempotencyKey(key)) return key
  throw new InvalidArgumentError(`idempotency-key: ${keyExpected}`)
}

function jsonText(text: string): string {
  try {
    const value: unknown = JSON.parse(text)
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) return text
  } catch (error) {
    throw new InvalidArgumentError(`This is not JSON: ${messageOf(error)}.`)
  }
  throw new InvalidArgumentError('expected a JSON object.')
}

const statusSchema = z.object({
  policy: z.string(),
  policy_sha256: z.string().nullable(),
  judged: z.number(),
  of: z.number(),
  failed: z.number(),
  unknown: z.number().default(0),
  different: z.number(),
  differences: z.array(
    z.object({
      tool: z.string(),
      in_force: z.string(),
      shadow: z.string(),
      reason: z.string(),
      trace_id: z.string(),
      calls: z.number(),
    }),
  ),
})
const unusedSchema = z.object({ policy: z.string(), error: z.string() })

/** `svc policy shadow`: what the shadow policy of a running gateway decides otherwise. */
export function policyShadowCommand(io: CliIo, env: Environment): Command {
  const command = withAdminOptions(new Command('shadow'))
    .description('report what the shadow policy of a running gateway decides otherwise')
    .action((flags: AdminFlags) => report(flags, io, env))
  return withManual(command, { example: '--policy policy.yaml' })
}

async function report(flags: AdminFlags, io: CliIo, env: Environment): Promise<void> {
  const client = await adminClientOf(flags, env)
  const response = await client.ask('api/policy/shadow')
  const unused = unusedSchema.safeParse(response)
  if (unused.success) throw new AdminError(`${unused.data.policy}: ${unused.data.error}`)
  if (flags.json === true) return io.out(`${JSON.stringify(response)}\n`)
  const { policy, policy_sha256, judged, of, failed, unknown, different, differences } = parseAdminResponse(
    statusSchema,
    response,
  )
  const rows = differences.map(({ calls, in_force, shadow, tool, reason, trace_id }) =>
    [`  ${calls}`, `${in_force} -> ${shadow}`, tool, reason, `e.g. trace ${trace_id}`].map(visibleInLine),
  )
  const lines = [
    `${policy} ${policy_sha256?.slice(0, 16) ?? ''}`,
    `judged     ${judged} of ${of} calls${failed === 0 ? '' : `, failed on ${failed}`}${unknown === 0 ? '' : `, unknown for ${unknown}`}`,
    `different  ${different} of ${judged}`,
  ]
  await io.out(`${lines.map((line) => `${visibleInLine(line)}\n`).join('')}${table(rows)}`)
}
