// Verifies a record in this browser: its proof, and the log against the head that the browser has kept.
import {
  type CheckedCosignature,
  type CheckResult,
  canonicalText,
  continuesHead,
  type ReadProof,
  readCheckpoint,
  readProof,
  readVerifierKeys,
  type SignedCheckpoint,
  webChecker,
} from '@svc/plugin-audit/browser'
import type { LogJson, ProofJson } from '../../../log/log-json.js'
import { type Api, ApiError } from '../kit/api.js'
import { keepHead, keptHead, keptOrigins, type SavedHead } from './saved-head.js'

export interface VerifiedRow {
  readonly name: string
  readonly result: CheckResult
}

export interface VerifiedRecord {
  readonly state: CheckResult['state']
  /** The record in the proof, which alone the result is of; undefined without a proof. */
  readonly record: ReadProof['fields']
  /** Name of the log. */
  readonly origin: string | undefined
  readonly rows: readonly VerifiedRow[]
  /** Keys and name of a log that this browser has not kept; they count once a person has compared them. */
  readonly unknown: readonly string[]
  /** The head before this verification; undefined for the first one. */
  readonly kept: SavedHead | undefined
  /** Whether the browser has stored the head of this verification; undefined if it is not kept. */
  readonly isStored?: boolean
}

interface CheckedRecord {
  /** The record as the gateway states it beside the proof, if it does. */
  readonly stated?: object
  /** Its day in UTC. */
  readonly day: string
  /** The log that it was in when it was verified before. */
  readonly origin: string | undefined
  /** Whether the reader has compared the key, or the name of the log. */
  trusts(text: string): boolean
  /** Verifier keys of witnesses, one a line, that the reader has: never those that the gateway states. */
  readonly witnessKeys: string
}

/** Undefined if the record is not sealed yet. Rejects with `ApiError`. */
export async function verifyRecord(
  api: Pick<Api, 'get'>,
  leaf: number,
  shown: CheckedRecord,
): Promise<VerifiedRecord | undefined> {
  const { given, proof, log, kept } = await readState(api, leaf, shown.origin)
  if (given?.proof === undefined || proof === undefined) {
    if (given?.sealed === false && (kept === undefined || kept.size <= leaf)) return undefined
    const result = missingResult(given, log, shown.day)
    const rows = [
      { name: 'Inclusion', result },
      { name: 'Kept head', result: historyOf(kept, log) },
    ]
    return { state: stateOf(rows), record: undefined, origin: kept?.origin, rows, unknown: [], kept }
  }
  const stated = given.keys ?? []
  const known = kept?.keys ?? stated
  const isKnown = (line: string) => known.some((one) => keyOf(one) === keyOf(line)) || shown.trusts(line)
  const keys = stated.filter(isKnown).map((line) => limited(line, kept))
  const { logs } = readVerifierKeys(keys.join('\n'))
  const { witnesses } = readVerifierKeys(shown.witnessKeys)
  const checked = await webChecker({ logs, witnesses }).check(proof, given.sealed_sha256)
  const { head: checkpoint, fields: record } = proof
  const { origin = checkpoint.origin } = shown
  const others = kept === undefined ? keptOrigins().filter((one) => one !== checkpoint.origin) : []
  const isOther = others.length > 0 && !shown.trusts(checkpoint.origin)
  const place: CheckResult =
    proof.index === leaf
      ? checked.inclusion
      : { state: 'failed', reason: `the gateway gave the proof of leaf ${proof.index}` }
  const decisive: VerifiedRow[] = [
    { name: 'Signature', result: checked.signature },
    { name: 'Inclusion', result: place },
    { name: 'Checkpoint', result: checked.checkpoint },
    ...(checked.vote === undefined ? [] : [{ name: 'Vote', result: checked.vote }]),
    ...(canonicalText(shown.stated ?? record) === canonicalText(record) ? [] : [otherRecord]),
    {
      name: 'Kept head',
      result:
        origin !== checkpoint.origin
          ? replacedLog(origin, checkpoint.origin)
          : isOther
            ? otherLog(others)
            : historyOf(kept, log, checkpoint),
    },
  ]
  const cosigned = witnessRows(checkpoint, checked.cosignatures)
  // A witness may be late with the newest checkpoint; a wrong cosignature is one that somebody made up.
  const state = stateOf([...decisive, ...cosigned.filter(({ result }) => result.state === 'failed')])
  const since = kept?.since ?? new Date().toISOString()
  const head = { ...headIn(checkpoint.note.text), origin: checkpoint.origin, keys, since }
  const newKeys = stated.filter((line) => !isKnown(line))
  return {
    state,
    record,
    origin: checkpoint.origin,
    rows: [...decisive, ...cosigned],
    unknown: isOther ? [...newKeys, checkpoint.origin] : newKeys,
    kept,
    ...(state === 'ok' ? { isStored: keepHead(head) } : {}),
  }
}

const otherRecord: VerifiedRow = {
  name: 'Stated record',
  result: { state: 'failed', reason: 'the gateway stated another record than the one in the proof' },
}

interface LogState {
  /** Undefined if the log does not have the record. */
  readonly given: ProofJson | undefined
  readonly proof: ReadProof | undefined
  /** The proof, with the path from the kept head to its head. */
  readonly log: LogJson
  readonly kept: SavedHead | undefined
}

/** A seal may fall between the two requests. */
const MAX_ATTEMPTS = 5

/** The proof of the record, and the log as it is for the same checkpoint. */
async function readState(
  api: Pick<Api, 'get'>,
  leaf: number,
  formerOrigin: string | undefined,
): Promise<LogState> {
  for (let attempt = 1; ; attempt++) {
    const given = await proofIn(api, leaf)
    const proof = given?.proof === undefined ? undefined : readProof(given.proof)
    const origin = proof?.head.origin ?? formerOrigin
    const kept = origin === undefined ? undefined : keptHead(origin)
    const log = await api.get<LogJson>(`/api/log${kept === undefined ? '' : `?older=${kept.size}`}`)
    const isSame = proof === undefined || proof.head.size === log.head?.size
    if (isSame || attempt === MAX_ATTEMPTS) return { given, proof, log, kept }
  }
}

async function proofIn(api: Pick<Api, 'get'>, leaf: number): Promise<ProofJson | undefined> {
  try {
    return await api.get<ProofJson>(`/api/records/${leaf}/proof`)
  } catch (error) {
    if (error instanceof ApiError && error.refusal.status === 404) return undefined
    throw error
  }
}

/** The result for a sealed record of which the log has no proof. */
function missingResult(given: ProofJson | undefined, { days }: LogJson, day: string): CheckResult {
  if (given?.sealed === true) return { state: 'failed', reason: 'the gateway gave no proof of a record' }
  if (given !== undefined)
    return { state: 'failed', reason: 'it was sealed, and no checkpoint covers it any more' }
  if (days.find((one) => one.day === day)?.state === 'removed')
    return { state: 'unchecked', reason: `retention removed the records of ${day}` }
  return { state: 'failed', reason: 'the log had this record, and has it no more' }
}

function stateOf(rows: readonly VerifiedRow[]): CheckResult['state'] {
  if (rows.some(({ result }) => result.state === 'failed')) return 'failed'
  return rows.every(({ result }) => result.state === 'ok') ? 'ok' : 'unchecked'
}

function keyOf(line: string): string {
  return line.split(' ')[0] ?? ''
}

/** A key may sign no more leaves than the browser has kept of it: the log may end a key, and not revive one. */
function limited(line: string, kept: SavedHead | undefined): string {
  const known = kept?.keys.find((one) => keyOf(one) === keyOf(line))
  if (known === undefined) return line
  const [key, from = '0', until] = line.split(' ')
  const [, keptFrom = '0', keptUntil] = known.split(' ')
  const ends = [until, keptUntil].flatMap((end) => (end === undefined ? [] : [Number(end)]))
  const end = ends.length === 0 ? [] : [Math.min(...ends)]
  return [key, Math.max(Number(from), Number(keptFrom)), ...end].join(' ')
}

function replacedLog(expected: string, found: string): CheckResult {
  return { state: 'failed', reason: 'the log is another one than a moment ago', expected, found }
}

function otherLog(others: readonly string[]): CheckResult {
  const reason = `this browser has kept heads of ${others.join(', ')} here, and none of this log`
  return { state: 'unchecked', reason }
}

function headIn(text: string): { size: number; root: string } {
  const [, size, root = ''] = text.split('\n')
  return { size: Number(size), root }
}

/** Whether the log continues the kept head, and the checkpoint of the proof is its newest. */
function historyOf(
  kept: SavedHead | undefined,
  { head, consistency = [] }: LogJson,
  checkpoint?: SignedCheckpoint,
): CheckResult {
  const newest = head === null ? undefined : readCheckpoint(head.note)
  if (newest === undefined)
    return {
      state: 'failed',
      reason: `the log has no checkpoint${kept ? `, the kept head has ${kept.size} leaves` : ''}`,
    }
  if (checkpoint !== undefined && checkpoint.note.text !== newest.note.text) {
    if (checkpoint.size !== newest.size)
      return { state: 'unchecked', reason: 'the log grew while it was read' }
    return { state: 'failed', reason: 'the log has another checkpoint of the same size than the proof' }
  }
  if (kept !== undefined) return continuesHead(kept, newest, consistency)
  return { state: 'ok', detail: 'the first one that this browser sees' }
}

/** A row for each witness whose key the reader has, and for each other name, which is only a claim of the checkpoint. */
function witnessRows(
  { origin, note: { signatures } }: SignedCheckpoint,
  cosignatures: readonly CheckedCosignature[],
): VerifiedRow[] {
  const claimed = signatures.flatMap(({ name }) => (name === origin ? [] : [name]))
  return [...new Set([...cosignatures.map(({ witness }) => witness), ...claimed])].map((name) => {
    // A witness may have a former key and a new one.
    const results = cosignatures.flatMap(({ witness, result }) => (witness === name ? [result] : []))
    const decided =
      results.find(({ state }) => state === 'failed') ?? results.find(({ state }) => state === 'ok')
    return { name: `Witness ${name}`, result: decided ?? results[0] ?? noKey }
  })
}

const noKey: CheckResult = { state: 'unchecked', reason: 'this browser has no key of it' }
