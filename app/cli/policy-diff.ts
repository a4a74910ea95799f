// `svc policy diff`: who gains and who loses what by a new policy.
import { visibleInLine } from '@svc/core/json'
import { describeDiagnostic } from '@svc/core/policy'
import { Command } from 'commander'
import type { Policy } from '../policy/config.js'
import { type PolicyChange, policyChanges, somebodyGains } from '../policy-tools/diff/diff.js'
import { lockedTools } from '../policy-tools/diff/known-calls.js'
import { recordedCalls } from '../policy-tools/diff/recorded-calls.js'
import { changeSigns } from '../policy-tools/diff/summary.js'
import { recordsOf } from '../policy-tools/replay/recorded-logs.js'
import type { CliIo, Environment } from './io.js'
import { NO_VERDICT, withManual } from './manual.js'
import { baseDirOf, loadPolicyFile } from './policy-file.js'
import { table } from './table.js'

export function policyDiffCommand(io: CliIo, env: Environment): Command {
  const command = new Command('diff')
    .description('report who gains and loses what by a new policy')
    .argument('<old>', 'the policy in force')
    .argument('<new>', 'the policy in its place')
    .option('--log <dir...>', 'compare on the callers and tools of these logs too')
    .option('--tools <file...>', 'compare on the tools of these lock files too')
    .option('--json', 'print the differences as JSON')
    .action((old: string, now: string, { json, log = [], tools = [] }: Flags) =>
      diff({ old, now, log, tools, json: json === true }, io, env),
    )
  return withManual(command, {
    example: 'policy.yaml new.yaml',
    verdicts: ['no known caller gains', 'one gains'],
  })
}

interface Flags {
  readonly json?: true
  readonly log?: readonly string[]
  readonly tools?: readonly string[]
}

interface Compared extends Required<Omit<Flags, 'json'>> {
  readonly old: string
  readonly now: string
  readonly json: boolean
}

async function diff({ old, now, log, tools, json }: Compared, io: CliIo, env: Environment): Promise<void> {
  const before = await load(old, io, env)
  const after = await load(now, io, env)
  if (before === undefined || after === undefined) {
    io.exit(NO_VERDICT)
    return
  }
  const place = { baseDir: baseDirOf(now), env }
  const { callers, tools: called, hasMore } = await recordedCalls(recordsOf(log, {}))
  // Imported here, because it loads the plugin.
  const { readLockFile } = await import('@svc/plugin-protections')
  const locked = [
    ...lockedTools(before, baseDirOf(old)),
    ...lockedTools(after, place.baseDir),
    ...tools.flatMap((file) => readLockFile(file, process.cwd()).tools),
  ]
  const changes = await policyChanges(before, after, { place, callers, tools: [...called, ...locked] })
  const more: PolicyChange = {
    effect: 'unknown',
    subject: 'callers',
    detail: 'the logs have too many to compare all',
  }
  const all = hasMore ? [...changes, more] : changes
  const gains = somebodyGains(all)
  if (json)
    await io.out(`${JSON.stringify({ old, new: now, gains: gains ?? null, changes: all }, null, 2)}\n`)
  else await io.out(all.length === 0 ? 'no difference in what callers may do\n' : report(all))
  if (gains !== false) io.exit(gains === undefined ? NO_VERDICT : 1)
}

async function load(file: string, io: CliIo, env: Environment): Promise<Policy | undefined> {
  const result = await loadPolicyFile(file, env, false)
  if (result.ok) return result.policy
  for (const mistake of result.mistakes) io.err(`${describeDiagnostic(mistake)}\n`)
  return undefined
}

const EVERY_TENANT = 'every tenant'

/** The changes of every tenant, then those of each. */
function report(changes: readonly PolicyChange[]): string {
  const tenants = [...new Set([EVERY_TENANT, ...changes.map(({ tenant = EVERY_TENANT }) => tenant)])]
  return tenants
    .map((title) => {
      const own = changes.filter(({ tenant = EVERY_TENANT }) => tenant === title)
      const rows = own.map(({ effect, subject, detail, example, calls = 1 }) => [
        `  ${changeSigns[effect]} ${visibleInLine(subject)}`,
        visibleInLine(detail),
        example === undefined ? '' : `${visibleInLine(example)}${calls > 1 ? ` and ${calls - 1} more` : ''}`,
      ])
      return rows.length === 0 ? '' : `${visibleInLine(title)}\n${table(rows)}`
    })
    .join('')
}
