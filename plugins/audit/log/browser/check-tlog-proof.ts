// Checks that a record was sealed in a log, from its c2sp.org/tlog-proof@v1 and keys alone, with WebCrypto.

import { type Bytes, hexOf, strictBase64, textBytes, utf8Text } from './bytes.js'
import { canonicalText } from './canonical.js'
import { type CheckResult, confirmed, notChecked, refuted, worstOf } from './check-result.js'
import { checkVoteProof } from './check-vote.js'
import { type GivenKey, type GivenKeys, verifiesEd25519 } from './given-keys.js'
import {
  type CheckedCosignature,
  checkCheckpoint,
  checkCosignature,
  readCheckpoint,
  type SignedCheckpoint,
} from './signed-checkpoint.js'
import { hashOfLeaf, prefixRoots, rootFrom } from './tree-walk.js'

const PROOF_VERSION = 'c2sp.org/tlog-proof@v1'
const INDEX_LINE = /^index (0|[1-9]\d{0,15})$/

export interface ReadProof {
  /** The stored line of the record. */
  readonly line: Bytes
  /** Its members; undefined if it is not a JSON object. */
  readonly record: Readonly<Record<string, unknown>> | undefined
  readonly leaf: number
  readonly path: readonly Bytes[]
  readonly checkpoint: SignedCheckpoint
}

export interface CheckedProof {
  readonly state: CheckResult['state']
  readonly signature: CheckResult
  readonly inclusion: CheckResult
  readonly checkpoint: CheckResult
  /** The result for a vote on an approval that has a passkey. */
  readonly vote?: CheckResult
  readonly cosignatures: readonly CheckedCosignature[]
}

/** Undefined for any text that is not one proof with a record. */
export function readProof(text: string): ReadProof | undefined {
  const end = text.indexOf('\n\n')
  const [version, extra = '', indexLine = '', ...hashes] = text.slice(0, end).split('\n')
  const leaf = Number(INDEX_LINE.exec(indexLine)?.[1])
  const line = extra.startsWith('extra ') ? strictBase64(extra.slice('extra '.length)) : undefined
  const path = hashes.map(strictBase64)
  const checkpoint = checkpointIn(text.slice(end + 2))
  if (end < 0 || version !== PROOF_VERSION || line === undefined || checkpoint === undefined) return undefined
  if (!Number.isSafeInteger(leaf)) return undefined
  if (!path.every((hash) => hash?.length === 32)) return undefined
  return { line, record: objectOf(line), leaf, path: path as Bytes[], checkpoint }
}

// Most proofs have the checkpoint of the one before.
let [lastNote, lastCheckpoint]: [string, SignedCheckpoint | undefined] = ['', undefined]

function checkpointIn(note: string): SignedCheckpoint | undefined {
  if (note !== lastNote) [lastNote, lastCheckpoint] = [note, readCheckpoint(note)]
  return lastCheckpoint
}

function objectOf(line: Bytes): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(utf8Text(line) ?? '')
    return typeof value === 'object' && value !== null && !Array.isArray(value)
      ? (value as Record<string, unknown>)
      : undefined
  } catch (error) {
    if (error instanceof SyntaxError) return undefined
    throw error
  }
}

/** @param sealed the hash of the leaf as the log's tree has it, in hexadecimal, for a message that names both hashes. */
export async function checkTlogProof(
  proof: ReadProof,
  keys: GivenKeys,
  sealed?: string,
): Promise<CheckedProof> {
  const signature = await checkSignature(proof, keys.logs)
  const inclusion = await checkInclusion(proof, sealed)
  const checkpoint = await checkCheckpoint(proof.checkpoint, keys.logs)
  const cosignatures = await Promise.all(
    keys.witnesses.map((witness) => checkCosignature(proof.checkpoint, witness)),
  )
  const vote = await checkVoteProof(proof.record ?? {})
  const votes = vote === undefined ? [] : [vote]
  const all = [signature, inclusion, checkpoint, ...votes, ...cosignatures.map(({ result }) => result)]
  return { state: worstOf(all), signature, inclusion, checkpoint, ...(vote && { vote }), cosignatures }
}

async function checkInclusion(
  { line, leaf, path, checkpoint: { size, root } }: ReadProof,
  sealed: string | undefined,
): Promise<CheckResult> {
  const found = await hashOfLeaf(line)
  const reached = await rootFrom(found, leaf, size, path)
  if (reached === undefined)
    return refuted(`the proof is not one of leaf ${leaf} in a tree of ${size} leaves`)
  if (hexOf(reached) === hexOf(root)) return confirmed(`leaf ${leaf} of ${size}`)
  if (sealed !== undefined && sealed !== hexOf(found)) {
    return refuted('the record was changed after it was sealed', { expected: sealed, found: hexOf(found) })
  }
  return refuted('the record does not lead to the root of the checkpoint', {
    expected: hexOf(root),
    found: hexOf(reached),
  })
}

async function checkSignature(
  { line, record, leaf }: ReadProof,
  keys: readonly GivenKey[],
): Promise<CheckResult> {
  if (record === undefined) return refuted('the line is not a JSON object')
  if (record['journal'] !== undefined) return refuted('it is a line of the journal, not a record')
  if (canonicalText(record) !== utf8Text(line)) return refuted('the line is not canonical JSON')
  const signed = signedPart(line, record)
  if (signed === undefined) return refuted('the record has no signature where its form requires it')
  if (keys.length === 0) return notChecked('no key of the log is given')
  const { key_id: keyId } = record
  const named = keys.filter(({ id }) => keyId === undefined || id === keyId)
  const trusted = named.filter(({ from, until }) => from <= leaf && leaf < until)
  if (named.length === 0) return refuted('the record is signed by none of the given keys', idOf(keyId))
  if (trusted.length === 0) return refuted(`the key of the record may not sign leaf ${leaf}`, idOf(keyId))
  for (const key of trusted) {
    const fits = await verifiesEd25519(key.bytes, signed.message, signed.signature)
    if (fits === undefined) return notChecked('this browser has no Ed25519')
    if (fits) return confirmed(`signed by ${key.id}`)
  }
  return refuted(`the signature of the record does not fit ${trusted.map(({ id }) => id).join(', ')}`)
}

function idOf(keyId: unknown): { found?: string } {
  return typeof keyId === 'string' ? { found: keyId } : {}
}

/** The signature of a record, and the bytes that it is over: those of the canonical line without the member `sig`. */
function signedPart(
  line: Bytes,
  record: Readonly<Record<string, unknown>>,
): { message: Bytes; signature: Bytes } | undefined {
  const { sig } = record
  const text = utf8Text(line)
  if (typeof sig !== 'string' || !sig.startsWith('ed25519:') || text === undefined) return undefined
  const signature = strictBase64(sig.slice('ed25519:'.length))
  const member = `"sig":"${sig}"`
  const start = text.indexOf(member)
  if (signature === undefined || start < 1) return undefined
  const end = start + member.length
  const isFirst = text[start - 1] !== ','
  const message = isFirst
    ? text.slice(0, start) + text.slice(text[end] === ',' ? end + 1 : end)
    : text.slice(0, start - 1) + text.slice(end)
  return { message: textBytes(message), signature }
}

/** Whether the newer checkpoint's log was only appended to since it had `size` leaves and this root, in base64. */
export async function checkAppendOnly(
  older: { readonly origin: string; readonly size: number; readonly root: string },
  newer: SignedCheckpoint,
  path: readonly string[],
): Promise<CheckResult> {
  if (older.origin !== newer.origin) {
    return refuted('the kept head is of another log', { expected: older.origin, found: newer.origin })
  }
  const root = strictBase64(older.root)
  const hashes = path.map(strictBase64)
  if (root?.length !== 32) return notChecked('the kept head is damaged')
  const isComplete = hashes.every((hash) => hash?.length === 32)
  if (older.size > newer.size) {
    return refuted(`the log has ${newer.size} leaves, the kept head has ${older.size}`)
  }
  const roots = isComplete ? await prefixRoots(older.size, newer.size, root, hashes as Bytes[]) : undefined
  if (roots === undefined)
    return refuted(`the proof is not one from ${older.size} leaves to ${newer.size} leaves`)
  if (hexOf(roots.older) !== hexOf(root)) {
    return refuted('the log no longer has the leaves of the kept head', {
      expected: hexOf(root),
      found: hexOf(roots.older),
    })
  }
  if (hexOf(roots.newer) !== hexOf(newer.root)) {
    return refuted('the checkpoint does not continue the kept head', {
      expected: hexOf(newer.root),
      found: hexOf(roots.newer),
    })
  }
  return confirmed(`only appended to since leaf ${older.size - 1}`)
}
