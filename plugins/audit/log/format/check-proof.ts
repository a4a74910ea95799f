// Checks that a record was sealed in a log, from its c2sp.org/tlog-proof@v1 and keys alone. The hash and what verifies
// signatures are those of the platform.

import { type CheckedLine, checkLine } from './check-line.js'
import { type CheckResult, confirmed, notChecked, refuted, worstOf } from './check-result.js'
import { type Head, isPast, judgeCosignature, parseCheckpoint } from './checkpoint.js'
import { bytesOfDigest, type Digest, digestFromBase64, hexOf } from './digest.js'
import { consistencyRoots, inclusionRoot, type NodeHash } from './merkle-proof.js'
import { judgeNote, type NamedKey, type Note, parseNote } from './note.js'
import { checkVote, type PasskeyCrypto } from './passkey-proof.js'
import { type Proof, parseProof } from './proof-text.js'
import { objectIn } from './stored-record.js'
import type { LeafKeys } from './verifier.js'

/** The hashes of a log's tree (RFC 6962 §2.1). */
export interface TreeHash {
  leafHash(line: Uint8Array): Digest
  readonly nodeHash: NodeHash
}

export interface SignedCheckpoint extends Head {
  readonly note: Note
}

/** A proof whose checkpoint is one of an audit log. */
export interface ReadProof extends Proof {
  /** The members of the record; undefined if it is not a JSON object. */
  readonly fields: Readonly<Record<string, unknown>> | undefined
  readonly head: SignedCheckpoint
}

export interface CheckedCosignature {
  readonly witness: string
  readonly result: CheckResult
}

export interface CheckedProof {
  readonly state: CheckResult['state']
  readonly signature: CheckResult
  readonly inclusion: CheckResult
  readonly checkpoint: CheckResult
  /** The result for a vote on an approval that has a passkey. */
  readonly vote?: CheckResult
  readonly cosignatures: readonly CheckedCosignature[]
  /** The check of the stored line by itself. */
  readonly line: CheckedLine
  /** The key that signed the checkpoint. */
  readonly keyId?: string
}

/** What the platform gives: its hash, its check of passkeys, and how its verifiers are waited for. */
export interface ProofCrypto {
  readonly hash: TreeHash
  readonly passkeys: PasskeyCrypto
  /** The result of `check`, whose keys verify signatures; undefined if the platform has no Ed25519. */
  settle<T>(check: () => T): T | Promise<T | undefined>
}

export interface ProofKeys {
  readonly log: LeafKeys
  readonly witnesses?: readonly NamedKey[]
}

/** Undefined for any text that is not one proof with a record. */
export function readProof(text: string): ReadProof | undefined {
  const proof = parseProof(text)
  const head = proof && readCheckpoint(proof.checkpoint)
  return head && { ...proof, head, fields: objectIn(proof.record) }
}

// Most proofs have the checkpoint of the one before.
let last: { readonly text: string; readonly head: SignedCheckpoint | undefined } | undefined

/** Undefined for any text that is not one checkpoint. */
export function readCheckpoint(text: string): SignedCheckpoint | undefined {
  if (last?.text === text) return last.head
  const note = parseNote(text)
  const head = note && parseCheckpoint(note.text)
  last = { text, head: head && { ...head, note } }
  return last.head
}

type SignedMembers = Pick<CheckedProof, 'signature' | 'checkpoint' | 'cosignatures' | 'line' | 'keyId'>

/** Checks proofs with the same keys. The signature of a checkpoint that several have is checked once. */
export class ProofChecker {
  readonly #keys: ProofKeys
  readonly #crypto: ProofCrypto
  readonly #hasKeys: boolean
  #last: { readonly head: SignedCheckpoint; readonly judged: CheckedHead } | undefined

  constructor(keys: ProofKeys, crypto: ProofCrypto) {
    this.#keys = keys
    this.#crypto = crypto
    this.#hasKeys = keys.log.allAt(undefined).length > 0
  }

  /** @param sealed the hash of the leaf as the log's tree has it, in hexadecimal, for a message that names both hashes. */
  async check(proof: ReadProof, sealed?: string): Promise<CheckedProof> {
    const inclusion = this.#inclusion(proof, sealed)
    const signed = (await this.#signed(proof)) ?? this.#unsigned()
    const vote = await checkVote(proof.fields ?? {}, this.#crypto.passkeys)
    const { signature, checkpoint, cosignatures } = signed
    const votes = vote === undefined ? [] : [vote]
    const all = [signature, inclusion, checkpoint, ...votes, ...cosignatures.map(({ result }) => result)]
    return { ...signed, state: worstOf(all), inclusion, ...(vote && { vote }) }
  }

  #inclusion({ record, index, path, head: { size, root } }: ReadProof, sealed?: string): CheckResult {
    const { leafHash, nodeHash } = this.#crypto.hash
    const leaf = leafHash(record)
    const reached = inclusionRoot(leaf, { index, size }, path, nodeHash)
    if (reached === undefined)
      return refuted(`the proof is not one of leaf ${index} in a tree of ${size} leaves`)
    if (reached === root) return confirmed(`leaf ${index} of ${size}`)
    const found = hexOfDigest(leaf)
    if (sealed !== undefined && sealed !== found)
      return refuted('the record was changed after it was sealed', { expected: sealed, found })
    return refuted('the record does not lead to the root of its checkpoint', {
      expected: hexOfDigest(root),
      found: hexOfDigest(reached),
    })
  }

  /** Undefined if the platform has no Ed25519. */
  async #signed({ record, index, head }: ReadProof): Promise<SignedMembers | undefined> {
    const { settle } = this.#crypto
    const judged = this.#last?.head === head ? this.#last.judged : await settle(() => this.#judgeHead(head))
    if (judged === undefined) return undefined
    this.#last = { head, judged }
    const line = await settle(() => checkLine(record, { keys: this.#keys.log }, index))
    return line && { line, signature: this.#signature(line), ...judged }
  }

  #signature({ failure, record }: CheckedLine): CheckResult {
    if (failure === undefined && record?.['journal'] !== undefined)
      return refuted('it proves a line of the journal, not a record')
    const isOfForm = failure?.kind === 'not_json' || failure?.kind === 'not_canonical'
    if (!this.#hasKeys && !isOfForm) return notChecked(NO_KEY)
    return failure === undefined
      ? confirmed(`signed by ${String(record?.['key_id'] ?? 'a given key')}`)
      : refuted(`${failure.kind}: ${failure.message}`)
  }

  #judgeHead(head: SignedCheckpoint): CheckedHead {
    const { witnesses = [] } = this.#keys
    const cosignatures = witnesses.map((witness) => ({
      witness: witness.name,
      result: cosignatureResult(head.note, witness),
    }))
    if (!this.#hasKeys) return { checkpoint: notChecked(NO_KEY), cosignatures }
    const judged = judgeNote(head.note, head.origin, this.#keys.log.allAt(head.size - 1))
    if (judged.kind === 'verified') {
      const { keyId } = judged.key
      return { checkpoint: confirmed(`signed by ${keyId}`), keyId, cosignatures }
    }
    return { checkpoint: refuted(this.#whyNotSigned(head, judged.kind)), cosignatures }
  }

  #whyNotSigned({ note, origin, size }: SignedCheckpoint, kind: 'unknown_key' | 'bad_signature'): string {
    if (kind === 'bad_signature') return 'the signature of its checkpoint does not fit'
    return judgeNote(note, origin, this.#keys.log.allAt(undefined)).kind === 'verified'
      ? `its checkpoint of ${size} leaves is signed by a key that is not trusted for them`
      : 'its checkpoint is signed by none of the keys'
  }

  #unsigned(): SignedMembers {
    const result = notChecked(NO_ED25519)
    const cosignatures = (this.#keys.witnesses ?? []).map(({ name }) => ({ witness: name, result }))
    return { line: {}, signature: result, checkpoint: result, cosignatures }
  }
}

type CheckedHead = Pick<CheckedProof, 'checkpoint' | 'cosignatures' | 'keyId'>

const NO_KEY = 'no key of the log is given'
const NO_ED25519 = 'this browser has no Ed25519'
const MS_PER_SECOND = 1_000

function cosignatureResult(note: Note, witness: NamedKey): CheckResult {
  const judged = judgeCosignature(note, witness)
  if (judged.kind === 'wrong') return refuted('the cosignature does not fit')
  if (judged.kind === 'absent') return notChecked('it has not cosigned this checkpoint')
  // A time in the future would never grow old.
  if (!isPast(judged.time, Date.now())) return notChecked('the time of its cosignature lies in the future')
  return confirmed(`cosigned at ${new Date(judged.time * MS_PER_SECOND).toISOString()}`)
}

/** Whether the newer checkpoint's log was only appended to since it had `size` leaves and this root, in base64. */
export function checkAppendOnly(
  older: { readonly origin: string; readonly size: number; readonly root: string },
  newer: Head,
  path: readonly string[],
  nodeHash: NodeHash,
): CheckResult {
  const { origin, size } = older
  if (origin !== newer.origin)
    return refuted('the kept head is of another log', { expected: origin, found: newer.origin })
  const root = digestFromBase64(older.root)
  if (root === undefined) return notChecked('the kept head is damaged')
  if (size > newer.size) return refuted(`the log has ${newer.size} leaves, the kept head has ${size}`)
  const hashes = path.map(digestFromBase64)
  const roots = hashes.every((hash) => hash !== undefined)
    ? consistencyRoots({ size, root }, newer.size, hashes, nodeHash)
    : undefined
  if (roots === undefined) return refuted(`the proof is not one from ${size} leaves to ${newer.size} leaves`)
  const differs = (reason: string, expected: Digest, found: Digest) =>
    refuted(reason, { expected: hexOfDigest(expected), found: hexOfDigest(found) })
  if (roots.older !== root)
    return differs('the log no longer has the leaves of the kept head', root, roots.older)
  if (roots.newer !== newer.root)
    return differs('the checkpoint does not continue the kept head', newer.root, roots.newer)
  return confirmed(`only appended to since leaf ${size - 1}`)
}

function hexOfDigest(digest: Digest): string {
  return hexOf(bytesOfDigest(digest))
}
