// The newest calls of a log, and those around an escalation.
import type { AdminAccess } from '../../policy/admin-authorizer.js'
import { type CallRow, callRowOf, type ReadRecord, readRecord } from './call-row.js'
import { linesBackward } from './log-tail.js'

/** The part of the log that is searched: about 10,000 records. */
const SEARCHED_BYTES = 8_388_608

/** Whether a client may see what happened to calls of this tenant. */
export function maySee({ readsAll, tenant }: AdminAccess, record: { readonly tenant: string }): boolean {
  return readsAll || record.tenant === tenant
}

/** The newest first, of the end of the log. Lines without `part` are passed over unread. */
export async function findCalls(
  dir: string,
  isWanted: (row: CallRow) => boolean,
  limit: number,
  part = '',
): Promise<CallRow[]> {
  const found: CallRow[] = []
  for await (const { id, text } of linesBackward(dir, SEARCHED_BYTES)) {
    const record = text.includes(part) ? readRecord(text) : undefined
    const row = record && callRowOf(record, id)
    if (row === undefined || !isWanted(row)) continue
    found.push(row)
    if (found.length >= limit) break
  }
  return found
}

interface CallsAround {
  /** The call that opened it. */
  readonly opener: ReadRecord | undefined
  /** The call that used its approval, once it has ended. */
  readonly outcome: CallRow | undefined
  /** The newest calls of its caller, and of its tool; the newest first. */
  readonly byCaller: readonly CallRow[]
  readonly byTool: readonly CallRow[]
}

interface Escalated {
  readonly id: string
  readonly tenant: string
  readonly server: string
  readonly tool: string
  readonly principal: string
  readonly trace_id: string
}

const LISTED = 10

/** One pass over the end of the log. */
export async function callsAround(dir: string, escalation: Escalated): Promise<CallsAround> {
  const { id, tenant, server, tool, principal, trace_id: traceId } = escalation
  let opener: ReadRecord | undefined
  let outcome: CallRow | undefined
  const byCaller: CallRow[] = []
  const byTool: CallRow[] = []
  for await (const line of linesBackward(dir, SEARCHED_BYTES)) {
    const record = readRecord(line.text)
    if (record === undefined || record.tenant !== tenant) continue
    const row = callRowOf(record, line.id)
    if (row.kind === 'event') continue
    if (row.trace_id === traceId && row.escalation_id === id) opener ??= record
    if (row.escalation_id === id && row.sent === 'yes') outcome ??= row
    if (byCaller.length < LISTED && row.caller === principal) byCaller.push(row)
    if (byTool.length < LISTED && row.server === server && row.tool === tool) byTool.push(row)
  }
  return { opener, outcome, byCaller, byTool }
}
