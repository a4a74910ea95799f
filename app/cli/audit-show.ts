// `svc audit show`: records in the format that a person or another system reads.

import { visibleInLine } from '@svc/core/json'
import type { SignedEnvelope } from '@svc/plugin-audit/log'
import { followLog, type LogFilter, readLog, toEcs, toOcsf } from '@svc/plugin-audit/tools'
import type { CliIo } from './io.js'
import { formatMilliseconds, table } from './table.js'

export const formats = ['ndjson', 'table', 'ocsf', 'ecs'] as const
type Format = (typeof formats)[number]

export interface ShowOptions extends LogFilter {
  format?: Format
  follow?: boolean
  /** Prints what decided each call in place of the records. */
  explain?: boolean
}

const headings = ['TIME', 'DECISION', 'STATUS', 'MS', 'TENANT', 'SERVER', 'TOOL', 'WHY', 'TRACE']

/** Widths of a table that is printed as it grows; a wider cell moves those after it. */
const growing = [24, 8, 6, 8, 12, 20, 24, 24, 32]

const FOLLOW_EVERY_MS = 250

/** `more` says when to look again under `--follow`; by default every 250 milliseconds, without end. */
export async function show(dir: string, options: ShowOptions, io: CliIo, more = waitMoment): Promise<void> {
  const { format = 'ndjson', follow = false, explain = false, ...filter } = options
  // Imported here, because it loads the reader of policies.
  const explainer = explain ? new (await import('../explain/explainer.js')).Explainer(dir) : undefined
  let failure: string | undefined
  const reading = {
    ...badLines(io),
    onUnverified: ({ file, line, kind }: { file: string; line: number; kind: string }) => {
      failure = kind
      io.err(`${file}:${line}: ${kind} (npx svc-sdk audit verify says more)\n`)
    },
  }
  const records = follow ? followLog(dir, filter, { ...reading, more }) : readLog(dir, filter, reading)
  const rows = [headings]
  const isWhole = format === 'table' && !follow
  if (format === 'table' && follow) await io.out(growingRow(headings))
  for await (const record of records) {
    const mark = failure
    failure = undefined
    if (explainer !== undefined) await io.out(`${explainer.linesOf(record, mark).join('\n')}\n`)
    else if (isWhole) rows.push(row(record, mark))
    else await io.out(lineOf(format, record, mark))
  }
  if (isWhole) await io.out(table(rows, [3]))
}

function lineOf(format: Format, record: SignedEnvelope, mark: string | undefined): string {
  switch (format) {
    case 'table':
      return growingRow(row(record, mark))
    case 'ocsf':
      return `${JSON.stringify(toOcsf(record))}\n`
    case 'ecs':
      return `${JSON.stringify(toEcs(record))}\n`
    case 'ndjson':
      return `${JSON.stringify(record)}\n`
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

/** @param mark why the record cannot be trusted. */
function row(record: SignedEnvelope, mark: string | undefined): string[] {
  const why = [...(mark === undefined ? [] : [mark.toUpperCase()]), ...reasonsOf(record)]
  return [
    record.ts,
    record.policy.decision,
    record.status,
    formatMilliseconds(record.latency_ms),
    record.tenant,
    record.server,
    record.tool,
    why.join(' '),
    record.trace_id,
  ].map(visibleInLine)
}

function waitMoment(): Promise<boolean> {
  return new Promise((resolve) => setTimeout(resolve, FOLLOW_EVERY_MS, true))
}

/** Reports lines that are not records on standard error and skips them. */
export function badLines(io: CliIo) {
  return {
    onBadLine: ({ file, line }: { file: string; line: number }) =>
      io.err(`${file}:${line}: not a record, left out (npx svc-sdk audit verify says what is wrong)\n`),
  }
}
