// `svc policy suggest`: the smallest policy that keeps what was used.
import { visibleInLine } from '@svc/core/json'
import { Command, InvalidArgumentError } from 'commander'
import { readPolicyText } from '../policy/policy-text.js'
import { writeText } from './audit-files.js'
import type { CliIo, Environment } from './io.js'
import { withManual } from './manual.js'
import { wholeNumber } from './option-values.js'
import { baseDirOf } from './policy-file.js'
import { type LogOptions, loadOrReport, verifiedLogs, withRecordedCalls } from './policy-replay.js'

interface SuggestOptions extends LogOptions {
  readonly headroom: number
  readonly minDays: number
  readonly out?: string
}

export function policySuggestCommand(io: CliIo, env: Environment): Command {
  const command = withRecordedCalls(
    new Command('suggest')
      .description('print a policy that allows only what recorded calls used')
      .argument('<file>', 'the policy in force'),
  )
    .option('--headroom <n>', 'how many times the observed rates limits allow', headroomOf, 3)
    .option('--min-days <n>', 'refuse to learn from fewer days', wholeNumber(0), 30)
    .option('--out <file>', 'write the policy to a file')
    .action((file: string, options: SuggestOptions) => suggest(file, options, io, env))
  return withManual(command, { example: 'policy.yaml --log audit --out narrow.yaml' })
}

async function suggest(file: string, options: SuggestOptions, io: CliIo, env: Environment): Promise<void> {
  const text = readPolicyText(file)
  const policy = await loadOrReport({ file, text }, io, env)
  const logs = policy === undefined ? undefined : await verifiedLogs(options, io)
  if (policy === undefined || logs === undefined) {
    io.exit(1)
    return
  }
  const { recordsOf } = await import('../policy-tools/replay/recorded-logs.js')
  const { suggestPolicy } = await import('../policy-tools/suggest/suggest.js')
  const { from, to, log, minDays, headroom, out } = options
  const suggestion = await suggestPolicy({
    policy,
    text,
    async load(suggested) {
      const narrow = await loadOrReport({ file, text: suggested }, io, env)
      if (narrow === undefined) throw new Error('the suggested policy has mistakes, so it is not printed')
      return narrow
    },
    records: () => recordsOf(log, to === undefined ? {} : { until: to }),
    place: { baseDir: baseDirOf(file), env },
    from,
    headroom,
    minDays,
  })
  for (const { dir, verification } of logs) io.err(`log      ${dir}: ${verification}\n`)
  const { learned, days, edits, newCallers, unknown } = suggestion
  io.err(
    `learned  from ${learned} calls in ${Math.floor(days)} days: ${edits} edits, by which no known call gains\n`,
  )
  for (const { subject, detail } of unknown) io.err(`unknown  ${visibleInLine(`${subject}: ${detail}`)}\n`)
  for (const { caller, first, calls, ownTools } of newCallers) {
    const own = ownTools.length === 0 ? '' : `, alone in using ${ownTools.join(', ')}`
    io.err(`new      ${visibleInLine(`${caller} since ${first.slice(0, 10)}, ${calls} calls${own}`)}\n`)
  }
  if (out === undefined) await io.out(suggestion.text)
  else await writeText(out, suggestion.text)
}

function headroomOf(text: string): number {
  const number = Number(text)
  if (number >= 1 && number <= 1000) return number
  throw new InvalidArgumentError('expected a number from 1 to 1000')
}
