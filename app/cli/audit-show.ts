// `svc audit show`: records in the format that a person or another system reads.

import { defined, visibleInLine } from '@svc/core/json'
import type { SignedEnvelope } from '@svc/plugin-audit/log'
import {
  followLog,
  type LogFilter,
  type MissingRecords,
  readLog,
  toEcs,
  toOcsf,
} from '@svc/plugin-audit/tools'
import { isUse, wouldDeny } from './call-lines.js'
import type { CliIo } from './io.js'
import { ownCommand } from './own-command.js'
import { formatMilliseconds, table } from './table.js'

export const formats = ['json', 'table', 'ocsf', 'ecs'] as const
type Format = (typeof formats)[number]

export interface ShowOptions extends LogFilter {
  format?: Format
  follow?: boolean
  /** The first leaf that `follow` prints. */
  from?: number
  /** Prints what decided each call in place of the records. */
  explain?: boolean
  /** Whether the forms for people have events and requests of the protocol too. */
  all?: boolean
}

/** When `--follow` looks again, and whether it ends. */
export interface FollowEnd {
  /** Resolves to false at the end. */
  more(): Promise<boolean>
  readonly isEnded: boolean
}

/** A record to print; without one, a sealed line that is not a record. */
interface CheckedRecord {
  readonly record: SignedEnvelope | undefined
  /** Why it is not verified. */
  readonly failure: string | undefined
  /** Known under `--follow`. */
  readonly leaf?: number
}

const headings = ['TIME', 'DECISION', 'STATUS', 'MS', 'TENANT', 'SERVER', 'TOOL', 'WHY', 'TRACE']

/** Widths of a table that is printed as it grows; a wider cell moves those after it. */
const growing = [24, 10, 6, 8, 12, 20, 24, 24, 32]

const FOLLOW_EVERY_MS = 250
const NOT_VERIFIED = 1

/** The exit status says whether a record that was printed, or had to be, is not verified. */
export async function show(dir: string, options: ShowOptions, io: CliIo, end?: FollowEnd): Promise<void> {
  const { format = 'json', follow = false, explain = false, all = false, from, ...given } = options
  if (from !== undefined && !follow) throw new Error('--from is the leaf at which --follow resumes')
  // Imported here, because it loads the reader of policies.
  const explainer = explain
    ? new (await import('../policy-tools/explain/explainer.js')).Explainer(dir)
    : undefined
  const calls = new CallsAlone()
  const isForPeople = (format === 'table' || explain) && !all
  const filter = isForPeople ? { ...given, where: calls.isShown } : given
  const report = (message: string) => {
    io.exit(NOT_VERIFIED)
    io.err(`${message} (${ownCommand()} audit verify says more)\n`)
  }
  const records = follow
    ? followed(dir, filter, from, { io, report, end: end ?? untilSignal() })
    : stored(dir, filter, { io, report })
  const rows = [headings]
  const isWhole = format === 'table' && !follow
  if (format === 'table' && follow) await io.out(growingRow(headings))
  for await (const shown of records) {
    const { record, failure } = shown
    if (explainer !== undefined) {
      if (record !== undefined) await io.out(`${explainer.linesOf(record, failure).join('\n')}\n`)
    } else if (isWhole) rows.push(row(shown))
    else await io.out(lineOf(format, shown))
  }
  if (isWhole) await io.out(table(rows, [3]))
  if (calls.hidden !== '') await io.out(`${calls.hidden}\n`)
}

/** Selects calls, and counts what it leaves out. */
class CallsAlone {
  #events = 0
  #requests = 0

  readonly isShown = (record: SignedEnvelope): boolean => {
    if (isUse(record)) return true
    if (record.mcp_method === undefined) this.#events++
    else this.#requests++
    return false
  }

  /** Empty if nothing was left out. */
  get hidden(): string {
    const events = this.#events === 0 ? [] : [`${this.#events} events of the gateway`]
    const requests = this.#requests === 0 ? [] : [`${this.#requests} requests of the protocol`]
    const found = [...events, ...requests]
    return found.length === 0 ? '' : `left out: ${found.join(', ')} (--all prints them)`
  }
}

interface Reporting {
  readonly io: CliIo
  report(message: string): void
}

async function* stored(
  dir: string,
  filter: LogFilter,
  { io, report }: Reporting,
): AsyncGenerator<CheckedRecord> {
  let failure: string | undefined
  const reading = {
    ...badLines(io),
    onUnverified: ({ file, line, kind }: { file: string; line: number; kind: string }) => {
      failure = kind
      report(`${file}:${line}: ${kind}`)
    },
  }
  for await (const record of readLog(dir, filter, reading)) {
    const shown = { record, failure }
    failure = undefined
    yield shown
  }
}

async function* followed(
  dir: string,
  filter: LogFilter,
  from: number | undefined,
  { io, report, end }: Reporting & { readonly end: FollowEnd },
): AsyncGenerator<CheckedRecord> {
  const reading = {
    from,
    more: () => end.more(),
    onBadJournal: (offset: number) => report(`audit.journal: the line before byte ${offset}: bad_journal`),
    onMissing: ({ day, leaf, isRemoved }: MissingRecords) => {
      if (isRemoved) io.err(`${day}: removed by retention, left out\n`)
      else report(`${day}: sealed records from leaf ${leaf} on are missing`)
    },
  }
  for await (const one of followLog(dir, filter, reading)) {
    if (one.failure !== undefined) report(`${one.day}: leaf ${one.leaf}: ${one.failure}`)
    yield one
    if (end.isEnded) return
  }
}

function lineOf(format: Format, shown: CheckedRecord): string {
  const { record, failure, leaf } = shown
  if (format === 'table') return growingRow(row(shown))
  const marks = {
    ...defined({ leaf }),
    ...(leaf === undefined && failure === undefined ? {} : { verified: failure === undefined }),
  }
  if (record === undefined) return `${JSON.stringify({ ...marks, failure })}\n`
  return `${JSON.stringify(converted(format, record, marks))}\n`
}

function converted(format: Exclude<Format, 'table'>, record: SignedEnvelope, marks: object): object {
  switch (format) {
    case 'ocsf':
      return toOcsf(record, marks)
    case 'ecs':
      return { ...toEcs(record), ...marks }
    case 'json':
      return { ...record, ...marks }
  }
}

function growingRow(cells: readonly string[]): string {
  return `${cells
    .map((cell, column) => cell.padEnd(growing[column] ?? 0))
    .join('  ')
    .trimEnd()}\n`
}

/** The error code and the reasons of the findings. */
export function reasonsOf({ error, findings }: SignedEnvelope): string[] {
  return [...(error === undefined ? [] : [error]), ...(findings ?? []).map(({ reason }) => reason)]
}

function row({ record, failure }: CheckedRecord): string[] {
  const mark = failure === undefined ? [] : [failure.toUpperCase()]
  if (record === undefined) return ['', '', '', '', '', '', '', ...mark]
  return [
    record.ts,
    wouldDeny(record) ? 'would deny' : record.policy.decision,
    record.status,
    formatMilliseconds(record.latency_ms),
    record.tenant,
    record.server,
    record.tool,
    [...mark, ...reasonsOf(record)].join(' '),
    record.trace_id,
  ].map(visibleInLine)
}

/** Looks again every 250 milliseconds, until SIGTERM or SIGINT. */
function untilSignal(): FollowEnd {
  let isEnded = false
  const ended = new Promise<false>((resolve) => {
    const end = () => {
      isEnded = true
      resolve(false)
    }
    for (const signal of ['SIGTERM', 'SIGINT'] as const) process.once(signal, end)
  })
  const moment = () => new Promise<true>((resolve) => setTimeout(resolve, FOLLOW_EVERY_MS, true))
  return {
    more: () => Promise.race([moment(), ended]),
    get isEnded() {
      return isEnded
    },
  }
}

/** Reports lines that are not records on standard error and skips them. */
export function badLines(io: CliIo) {
  return {
    onBadLine: ({ file, line }: { file: string; line: number }) =>
      io.err(`${file}:${line}: not a record, left out (${ownCommand()} audit verify says what is wrong)\n`),
  }
}
