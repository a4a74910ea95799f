// The newest calls of a log, and those around an escalation.
import { BoundedMap } from '@svc/core/store'
import type { Escalation } from '@svc/plugin-enforcement'
import type { AdminAccess } from '../../policy/admin-authorizer.js'
import { type CallRow, callRowOf, readRecord } from './call-row.js'
import {
  CHUNK,
  isBefore,
  linesAfter,
  linesBackward,
  MAX_BEFORE,
  placeBefore,
  placeOfId,
  type TailLine,
  type TailPlace,
} from './log-tail.js'

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
    const row = text.includes(part) ? rowIn({ id, text }) : undefined
    if (row === undefined || !isWanted(row)) continue
    found.push(row)
    if (found.length >= limit) break
  }
  return found
}

export interface CallsAround {
  /** The call that used its approval, once it has ended. */
  readonly outcome: CallRow | undefined
  /** The newest calls of its caller, and of its tool; the newest first. */
  readonly byCaller: readonly CallRow[]
  readonly byTool: readonly CallRow[]
}

const LISTED = 10
/** Milliseconds for which all clients share what one has read. */
const SHARED_MS = 1_000
const MAX_SHARED = 100

const searches = new BoundedMap<string, { readonly at: number; readonly found: Promise<CallsAround> }>(
  MAX_SHARED,
)

/** The calls around an escalation, of the end of the log and of the time at which it was opened and used. */
export function callsAround(dir: string, escalation: Escalation): Promise<CallsAround> {
  const key = JSON.stringify([dir, escalation.id, escalation.isUsed])
  const now = performance.now()
  const known = searches.get(key)
  if (known !== undefined && now - known.at < SHARED_MS) return known.found
  const found = searchAround(dir, escalation)
  searches.set(key, { at: now, found })
  return found
}

async function searchAround(dir: string, escalation: Escalation): Promise<CallsAround> {
  const outcome = escalation.isUsed ? await outcomeOf(dir, escalation) : undefined
  const lists = new CallLists(escalation)
  const last = await lists.addFrom(linesBackward(dir, SEARCHED_BYTES))
  const opened = lists.areFull ? undefined : await placeBefore(dir, escalation.createdAt)
  // The end of a log that grows fast is later than the call.
  if (opened !== undefined && last !== undefined) {
    const before = { ...opened, offset: opened.offset + MAX_BEFORE }
    if (isBefore(before, last)) await lists.addFrom(linesBackward(dir, SEARCHED_BYTES, before))
  }
  return { outcome, byCaller: lists.byCaller, byTool: lists.byTool }
}

/** The call that used the approval: its record was written after that. */
async function outcomeOf(dir: string, escalation: Escalation): Promise<CallRow | undefined> {
  const { id, usedAt, decidedAt, createdAt } = escalation
  let place = await placeBefore(dir, usedAt ?? decidedAt ?? createdAt)
  for (let left = SEARCHED_BYTES; left > 0; left -= CHUNK) {
    const { lines, next, isMore } = await linesAfter(dir, place)
    for (const line of lines) {
      const row = line.text.includes(id) ? rowIn(line) : undefined
      if (row?.kind === 'call' && row.escalation_id === id && mayBeSent(row)) return row
    }
    if (!isMore) return undefined
    place = next
  }
  return undefined
}

/** It may have been sent if the server did not respond in time, or the gateway ended. */
function mayBeSent({ sent }: CallRow): boolean {
  return sent === 'yes' || sent === 'unknown'
}

class CallLists {
  readonly byCaller: CallRow[] = []
  readonly byTool: CallRow[] = []
  readonly #escalation: Escalation
  /** Parts of the lines that are worth parsing. */
  readonly #parts: readonly string[]

  constructor(escalation: Escalation) {
    this.#escalation = escalation
    const { principal, principalKind, agent, tool } = escalation
    const caller = principalKind === undefined ? agent : principal
    this.#parts = [...(caller === undefined ? [] : [caller]), tool].map(inJson)
  }

  get areFull(): boolean {
    return this.byCaller.length >= LISTED && this.byTool.length >= LISTED
  }

  /** Returns the place after the last line that was read; undefined if there is none. */
  async addFrom(lines: AsyncIterable<TailLine>): Promise<TailPlace | undefined> {
    let id = ''
    for await (const line of lines) {
      id = line.id
      const row = this.#parts.some((part) => line.text.includes(part)) ? rowIn(line) : undefined
      if (row !== undefined) this.#add(row)
      if (this.areFull) break
    }
    return placeOfId(id)
  }

  #add(row: CallRow): void {
    const { tenant, server, tool } = this.#escalation
    if (row.kind === 'event' || row.tenant !== tenant) return
    if (this.byCaller.length < LISTED && this.#isByCaller(row)) this.byCaller.push(row)
    if (this.byTool.length < LISTED && row.server === server && row.tool === tool) this.byTool.push(row)
  }

  /** A caller whose token names nobody is known by the agent that it names. */
  #isByCaller({ caller }: CallRow): boolean {
    const { principal, principalKind, agent } = this.#escalation
    return caller === (principalKind === undefined ? agent : principal)
  }
}

function rowIn({ id, text }: TailLine): CallRow | undefined {
  const record = readRecord(text)
  return record && callRowOf(record, id)
}

/** A name as the canonical JSON of a record has it. */
function inJson(name: string): string {
  return JSON.stringify(name).slice(1, -1)
}
