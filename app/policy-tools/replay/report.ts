// The report of `svc policy replay`: for people, as Markdown for a pull request, and as JSON.
import { visibleInLine } from '@svc/core/json'
import { type Change, changes } from './change.js'
import type { ChangedCall, ChangeGroup, ReplayResult } from './replay.js'

export interface ReplayReport {
  /** The result of the verification of each log, by its directory. */
  readonly logs: readonly { readonly dir: string; readonly verification: string }[]
  /** SHA-256, hex, of the new policy. */
  readonly now: string | null
  /** SHA-256, hex, of the policy that it is compared with, if one is known. */
  readonly old: string | null
  readonly result: ReplayResult
  /** The parts that stages cannot judge without outside systems. */
  readonly notes: readonly string[]
  readonly seconds: number
}

/** Groups that the summary shows of each change; JSON has all. */
const MAX_GROUPS = 12
const DIGITS = 4

export function replayText(report: ReplayReport): string {
  const { result, seconds } = report
  const lines = [
    ...report.logs.map(({ dir, verification }) => labelled('log', `${dir}: ${verification}`)),
    labelled('policies', policiesLine(report)),
    labelled('fidelity', fidelityLine(report)),
    ...result.fidelity.others.map((call) => `             ${callLine(call)}`),
    `  ${'same'.padEnd(16)} ${count(result.same).padStart(9)}`,
    ...changes.flatMap((change) => groupLines(result.groups, change)),
    labelled('estimates', estimateLine(result)),
    labelled('not judged', notJudged(result)),
    ...report.notes.map((note) => labelled('note', note)),
    `${callsOf(result.judged)} in ${seconds.toFixed(1)} s`,
    `exit ${result.hasLosses ? 1 : 0}: ${verdictOf(result)}`,
  ]
  return lines.map((line) => `${visibleInLine(line)}\n`).join('')
}

export function replayMarkdown(report: ReplayReport): string {
  const { result } = report
  const rows = changes.flatMap((change) =>
    shownOf(result.groups, change).map((group) => {
      const { calls, callers, tool, why } = group
      return `| ${change} | ${count(calls)} | ${code(tool)} | ${code(spanOf(why, group))} | ${count(callers)} |`
    }),
  )
  const lines = [
    `### Replay of ${callsOf(result.judged)}`,
    '',
    `**${verdictOf(result).replace(/^./, (first) => first.toUpperCase())}.**`,
    '',
    '| change | calls | tool | why | callers |',
    '| --- | ---: | --- | --- | ---: |',
    `| same | ${count(result.same)} | | | |`,
    ...rows,
    '',
    ...report.logs.map(({ dir, verification }) => `- log ${code(dir)}: ${verification}`),
    `- policies: ${policiesLine(report)}`,
    `- fidelity: ${fidelityLine(report)}`,
    `- estimates: ${code(estimateLine(result))}`,
    `- not judged: ${code(notJudged(result))}`,
    ...report.notes.map((note) => `- ${note}`),
  ]
  return lines.map((line) => `${visibleInLine(line)}\n`).join('')
}

export function replayJson({ logs, now, old, result, notes, seconds }: ReplayReport): object {
  const { policies, notJudged: left, estimate, latestPolicy: _, ...rest } = result
  return {
    logs,
    new: now,
    old,
    ...rest,
    policies: Object.fromEntries(policies),
    not_judged: Object.fromEntries(left),
    estimate:
      estimate === undefined
        ? null
        : { more: Object.fromEntries(estimate.more), fewer: estimate.fewer, from: estimate.from ?? null },
    notes,
    seconds,
  }
}

/** One line of `--list`. */
export function callLine({ ts, trace_id, tool, caller, change, was, why }: ChangedCall): string {
  return visibleInLine(`${ts}  ${change.padEnd(15)}  was ${was}  ${tool}  ${caller}  ${why}  ${trace_id}`)
}

function policiesLine({ now, old, result }: ReplayReport): string {
  if (old === null) return `NEW ${short(now)}; no policy in force is known: give --against`
  const calls = count(result.policies.get(old) ?? 0)
  return `NEW ${short(now)}  OLD ${short(old)} (in force for ${calls} of ${callsOf(result.judged)})`
}

function fidelityLine({ result: { fidelity, policies }, old }: ReplayReport): string {
  const { repeated, decided, byFindings } = fidelity
  if (decided === 0) return 'unknown: no policy that was in force is known'
  const others = [...policies].filter(([sha256]) => sha256 !== old)
  const under = others.map(([sha256, calls]) => `${callsOf(calls)} under ${short(sha256)}`)
  const found = byFindings === 0 ? [] : [`${count(byFindings)} by what was found then`]
  return [
    `the policies in force repeat the record for ${count(repeated)} of ${count(decided)}`,
    ...found,
    ...under,
  ].join('; ')
}

function groupLines(groups: readonly ChangeGroup[], change: Change): string[] {
  const all = groups.filter((group) => group.change === change)
  const shown = shownOf(groups, change)
  const left = all.slice(shown.length).reduce((sum, { calls }) => sum + calls, 0)
  const width = Math.max(0, ...shown.map(({ tool }) => tool.length))
  const lines = shown.map((group) => {
    const { calls, callers, tool, why } = group
    const who = `${count(callers)} ${callers === 1 ? 'caller' : 'callers'}`
    return `  ${change.padEnd(16)} ${count(calls).padStart(9)}   ${tool.padEnd(width)}   ${spanOf(why, group)}   ${who}`
  })
  return left === 0
    ? lines
    : [...lines, `  ${change.padEnd(16)} ${count(left).padStart(9)}   of other tools (--json has all)`]
}

function shownOf(groups: readonly ChangeGroup[], change: Change): readonly ChangeGroup[] {
  return groups.filter((group) => group.change === change).slice(0, MAX_GROUPS)
}

function spanOf(why: string, { change, first, last }: ChangeGroup): string {
  if (!change.startsWith('maybe') && change !== 'unknown') return why
  const [from, to] = [first.slice(0, 10), last.slice(0, 10)]
  return `${why}, ${from === to ? `on ${from}` : `${from} to ${to}`}`
}

function estimateLine({ estimate }: ReplayResult): string {
  if (estimate === undefined) return 'no limit applies'
  const { more, fewer, from } = estimate
  if (from === undefined) return 'none: the calls span less than the first day, which is warm-up'
  const shown = [...more].sort(([, a], [, b]) => b - a).slice(0, MAX_GROUPS)
  const refused = shown.map(([what, calls]) => `${callsOf(calls)} more over ${what.replace('  ', ': ')}`)
  const parts = [...refused, ...(fewer === 0 ? [] : [`${count(fewer)} fewer`])]
  return `limits: ${parts.join('; ') || 'no difference'} (order by arrival, until ${from} is warm-up)`
}

function notJudged({ notJudged: left }: ReplayResult): string {
  const ended = [...left].map(([error, calls]) => `${callsOf(calls)} that ended with ${error}`)
  return ['approvals, responses of servers, calls that never came', ...ended].join('; ')
}

function verdictOf({ hasLosses }: ReplayResult): string {
  return hasLosses
    ? 'calls that were allowed are not, or may not be'
    : 'every call that was allowed is allowed'
}

function labelled(label: string, text: string): string {
  return `${label.padEnd(10)} ${text}`
}

function short(sha256: string | null): string {
  return sha256 === null ? 'without a hash' : `${sha256.slice(0, DIGITS)}…`
}

function count(number: number): string {
  return number.toLocaleString('en-US')
}

function callsOf(number: number): string {
  return `${count(number)} ${number === 1 ? 'call' : 'calls'}`
}

function code(text: string): string {
  return `\`${text.replaceAll('`', "'").replaceAll('|', '\\|')}\``
}
