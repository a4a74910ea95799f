// `svc policy diff`: who gains and who loses what by a new policy.
import type { ChangeEffect, PolicyChange } from '@svc/core'
import { visibleInLine } from '@svc/core/json'
import { describeDiagnostic } from '@svc/core/policy'
import { Command } from 'commander'
import type { Policy } from '../policy/config.js'
import { policyChanges, somebodyGains } from '../policy-diff/diff.js'
import { changeSigns } from '../policy-diff/summary.js'
import type { CliIo, Environment } from './io.js'
import { NO_VERDICT, withManual } from './manual.js'
import { loadPolicyFile } from './policy-file.js'
import { table } from './table.js'

export function policyDiffCommand(io: CliIo, env: Environment): Command {
  const command = new Command('diff')
    .description('report who gains and loses what by a new policy')
    .argument('<old>', 'the policy in force')
    .argument('<new>', 'the policy in its place')
    .option('--json', 'print the differences as JSON')
    .action((old: string, now: string, { json }: { json?: true }) =>
      diff({ old, now, json: json === true }, io, env),
    )
  return withManual(command, {
    example: 'policy.yaml new.yaml',
    verdicts: ['nobody gains', 'somebody gains'],
  })
}

interface Compared {
  readonly old: string
  readonly now: string
  readonly json: boolean
}

async function diff({ old, now, json }: Compared, io: CliIo, env: Environment): Promise<void> {
  const before = await load(old, io, env)
  const after = await load(now, io, env)
  if (before === undefined || after === undefined) {
    io.exit(NO_VERDICT)
    return
  }
  const changes = policyChanges(before, after)
  const gains = somebodyGains(changes)
  if (json) await io.out(`${JSON.stringify({ old, new: now, gains: gains ?? null, changes }, null, 2)}\n`)
  else await io.out(changes.length === 0 ? 'no difference in what callers may do\n' : report(changes))
  if (gains !== false) io.exit(gains === undefined ? NO_VERDICT : 1)
}

async function load(file: string, io: CliIo, env: Environment): Promise<Policy | undefined> {
  const result = await loadPolicyFile(file, env, false)
  if (result.ok) return result.policy
  for (const mistake of result.mistakes) io.err(`${describeDiagnostic(mistake)}\n`)
  return undefined
}

const notes: Readonly<Record<ChangeEffect, string>> = {
  gain: '',
  loss: '',
  wider: 'wider',
  narrower: 'narrower',
  unknown: '',
  none: '',
}

const EVERY_TENANT = 'every tenant'

/** The changes of every tenant, then those of each. */
function report(changes: readonly PolicyChange[]): string {
  const tenants = [...new Set([EVERY_TENANT, ...changes.map(({ tenant = EVERY_TENANT }) => tenant)])]
  return tenants
    .map((title) => {
      const own = changes.filter(({ tenant = EVERY_TENANT }) => tenant === title)
      const rows = own.map(({ effect, subject, detail, example }) => [
        `  ${changeSigns[effect]} ${visibleInLine(subject)}`,
        visibleInLine(detail),
        example === undefined ? notes[effect] : `e.g. ${visibleInLine(example)}`,
      ])
      return rows.length === 0 ? '' : `${visibleInLine(title)}\n${table(rows)}`
    })
    .join('')
}
