// Verifies a record in this browser: its proof, and the head that the browser has kept.
import {
  type CheckResult,
  checkAppendOnly,
  checkTlogProof,
  readGivenKeys,
  readProof,
} from '@svc/plugin-audit/browser'
import type { LogJson, ProofJson } from '../../../log/log-json.js'
import type { Api } from '../kit/api.js'
import { type KeptHead, keepHead, keptHead, keptOrigins } from './kept-head.js'

export interface VerifiedRow {
  readonly name: string
  readonly result: CheckResult
}

export interface VerifiedRecord {
  readonly state: CheckResult['state']
  readonly leaf: number
  readonly size: number
  readonly rows: readonly VerifiedRow[]
  /** Keys and the name of a log that this browser has not kept; they count once somebody has compared them. */
  readonly unknown: readonly string[]
  /** The head before this verification; undefined for the first one. */
  readonly kept: KeptHead | undefined
  /** The head of this one, if all was correct. */
  readonly newest: KeptHead | undefined
}

interface Trust {
  /** The head to compare with; default: the one that the browser has kept. */
  readonly head: KeptHead | undefined
  /** Whether the reader has compared the key, or the name of the log. */
  trusts(text: string): boolean
}

/** Undefined if the record is not sealed yet. Rejects with `ApiError`. */
export async function verifyRecord(
  api: Pick<Api, 'get'>,
  leaf: number,
  { head, trusts }: Trust,
): Promise<VerifiedRecord | undefined> {
  const { origin } = await api.get<LogJson>('/api/log')
  const kept = head ?? (origin === null ? undefined : keptHead(origin))
  const older = kept === undefined ? '' : `?older=${kept.size}`
  const given = await api.get<ProofJson>(`/api/records/${leaf}/proof${older}`)
  const proof = given.proof === undefined ? undefined : readProof(given.proof)
  if (!given.sealed) return undefined
  if (proof === undefined) {
    const result = { state: 'failed', reason: 'the gateway gave no proof of a record' } as const
    return {
      state: 'failed',
      leaf,
      size: 0,
      rows: [{ name: 'Proof', result }],
      unknown: [],
      kept,
      newest: undefined,
    }
  }
  const stated = given.keys ?? []
  const known = kept?.keys ?? stated
  const isKnown = (line: string) => known.some((one) => keyOf(one) === keyOf(line)) || trusts(line)
  const newKeys = stated.filter((line) => !isKnown(line))
  const checked = await checkTlogProof(
    proof,
    await readGivenKeys(
      stated
        .filter(isKnown)
        .map((line) => limited(line, kept))
        .join('\n'),
    ),
    given.sealed_sha256,
  )
  const { checkpoint } = proof
  const others = kept === undefined ? keptOrigins().filter((one) => one !== checkpoint.origin) : []
  const isOther = others.length > 0 && !trusts(checkpoint.origin)
  const history = isOther ? otherLog(others) : await historyOf(kept, checkpoint, given.consistency)
  const place: CheckResult =
    proof.leaf === leaf
      ? checked.inclusion
      : { state: 'failed', reason: `the gateway gave the proof of leaf ${proof.leaf}` }
  const votes = checked.vote === undefined ? [] : [checked.vote]
  const rows: VerifiedRow[] = [
    { name: 'Signature', result: checked.signature },
    { name: `Leaf ${leaf} of ${checkpoint.size}`, result: place },
    { name: 'Checkpoint', result: checked.checkpoint },
    ...votes.map((result) => ({ name: 'Vote', result })),
    ...witnessRows(checkpoint),
    { name: 'Kept head', result: history },
  ]
  const decisive = [checked.signature, place, checked.checkpoint, ...votes, history]
  const isOk = decisive.every(({ state }) => state === 'ok')
  const isFailed = decisive.some(({ state }) => state === 'failed')
  const { origin: name, text } = checkpoint
  const since = kept?.since ?? new Date().toISOString()
  const newest = {
    ...headIn(text),
    origin: name,
    keys: stated.filter(isKnown).map((line) => limited(line, kept)),
    since,
  }
  if (isOk) keepHead(newest)
  const state = isFailed ? 'failed' : isOk ? 'ok' : 'unchecked'
  const unknown = isOther ? [...newKeys, checkpoint.origin] : newKeys
  return { state, leaf, size: checkpoint.size, rows, unknown, kept, newest: isOk ? newest : undefined }
}

type Checkpoint = NonNullable<ReturnType<typeof readProof>>['checkpoint']

function keyOf(line: string): string {
  return line.split(' ')[0] ?? ''
}

/** A key may sign no more leaves than the browser has kept of it: the log may end a key, and not revive one. */
function limited(line: string, kept: KeptHead | undefined): string {
  const known = kept?.keys.find((one) => keyOf(one) === keyOf(line))
  if (known === undefined) return line
  const [key, from = '0', until] = line.split(' ')
  const [, keptFrom = '0', keptUntil] = known.split(' ')
  const ends = [until, keptUntil].flatMap((end) => (end === undefined ? [] : [Number(end)]))
  const end = ends.length === 0 ? [] : [Math.min(...ends)]
  return [key, Math.max(Number(from), Number(keptFrom)), ...end].join(' ')
}

function otherLog(others: readonly string[]): CheckResult {
  const reason = `this browser has kept heads of ${others.join(', ')} here, and none of this log`
  return { state: 'unchecked', reason }
}

function headIn(text: string): { size: number; root: string } {
  const [, size, root = ''] = text.split('\n')
  return { size: Number(size), root }
}

async function historyOf(
  kept: KeptHead | undefined,
  checkpoint: Checkpoint,
  path: readonly string[] = [],
): Promise<CheckResult> {
  if (kept !== undefined) return checkAppendOnly(kept, checkpoint, path)
  return { state: 'ok', detail: 'the first one: this browser keeps it from now on' }
}

/** Their keys are not here, so that their names are only what the checkpoint says. */
function witnessRows({ origin, signatures }: Checkpoint): VerifiedRow[] {
  const names = [...new Set(signatures.flatMap(({ name }) => (name === origin ? [] : [name])))]
  const result: CheckResult = { state: 'unchecked', reason: 'this browser has no key of it' }
  return names.map((name) => ({ name: `Witness ${name}`, result }))
}
