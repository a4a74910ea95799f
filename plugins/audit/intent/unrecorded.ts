// Finds the calls without a record: a process may have died between writing a record and noting the outcome.

import { join } from 'node:path'
import { linesOf } from '../log/files/lines.js'
import { utcDayOf } from '../log/format/day.js'
import { systemCode } from '../log/format/errors.js'
import { dailyLog } from '../log/format/paths.js'
import { objectIn } from '../log/format/stored-record.js'
import type { Intent } from './entry.js'

const SPAN_MEMBER = Buffer.from('"span_id":"')
const QUOTE = 0x22

/** Those of `intents` whose call has no record in the log under `dir`. */
export async function unrecorded(dir: string, intents: readonly Intent[]): Promise<Intent[]> {
  const days = new Map<string, Intent[]>()
  for (const intent of intents) {
    const day = utcDayOf(intent.record.ts) ?? ''
    const same = days.get(day)
    if (same === undefined) days.set(day, [intent])
    else same.push(intent)
  }
  const left: Intent[] = []
  for (const [day, ofDay] of days) left.push(...(await unrecordedOn(join(dir, dailyLog(day)), ofDay)))
  return left
}

async function unrecordedOn(path: string, intents: readonly Intent[]): Promise<Intent[]> {
  const missing = new Map(intents.map((intent) => [intent.record.span_id, intent]))
  const from = Math.min(...intents.map((intent) => intent.from))
  try {
    for await (const { bytes } of linesOf(path, from)) {
      if (missing.size === 0) break
      const span = spanOf(bytes)
      const intent = span === undefined ? undefined : missing.get(span)
      // The byte search finds candidates; the parsed record decides.
      if (intent !== undefined && isOf(intent, bytes)) missing.delete(intent.record.span_id)
    }
  } catch (error) {
    // ENOENT: a day without a log has no records.
    if (systemCode(error) !== 'ENOENT') throw error
  }
  return [...missing.values()]
}

/** In a canonical record no string holds an unescaped quote, and no object follows this member. */
function spanOf(line: Buffer): string | undefined {
  const at = line.lastIndexOf(SPAN_MEMBER)
  if (at < 0) return undefined
  const start = at + SPAN_MEMBER.length
  return line.toString('latin1', start, line.indexOf(QUOTE, start))
}

function isOf({ record }: Intent, line: Buffer): boolean {
  const found = objectIn(line)
  return found !== undefined && found['trace_id'] === record.trace_id && found['span_id'] === record.span_id
}
