// The proof of one record for a reader who checks it: nothing is judged here, so that a changed record is seen as one.

import { nodeFileSystem } from '../../files/file-system.js'
import { digestToBase64 } from '../../format/digest.js'
import type { LineOf } from '../../format/journal-line.js'
import { consistencyRanges } from '../../format/merkle-proof.js'
import { journalBackwards } from '../../tree/journal-file.js'
import { KeyHistory } from '../../tree/key-history.js'
import { rootsOf } from '../../tree/tree-store.js'
import { Prover } from '../prove/prove.js'
import { recordAt } from './browse-records.js'

export interface BrowsedProof {
  readonly leaf: number
  /** `c2sp.org/tlog-proof@v1` of the record as it is stored now. */
  readonly proof: string
  /** SHA-256 of the leaf as the log's tree has it, in hexadecimal. */
  readonly sealed_sha256: string
  /** Public key lines with the leaves that each may sign. */
  readonly keys: readonly string[]
}

/**
 * Undefined if the log does not have the record, or the newest checkpoint does not cover it.
 *
 * @throws {AuditError} `not_sealed` without a checkpoint; `read_failed` if the tree lacks a hash.
 */
export async function browseProof(dir: string, leaf: number): Promise<BrowsedProof | undefined> {
  const stored = recordAt(dir, leaf)
  if (stored === undefined) return undefined
  const keys = statedKeys(dir)
  const prover = await Prover.open(dir, keys)
  if (leaf >= prover.size) return undefined
  const [sealed = ''] = rootsOf(nodeFileSystem, dir, [{ start: leaf, end: leaf + 1 }])
  return {
    leaf,
    proof: prover.uncheckedProof(stored.line, leaf),
    sealed_sha256: Buffer.from(sealed, 'binary').toString('hex'),
    keys: keyLines(keys),
  }
}

/** Base64 of each hash that proves the head of `size` leaves to continue the older one; none for a head that does not. */
export function consistencyPath(dir: string, older: number, size: number): string[] {
  if (older < 1 || older >= size) return []
  return rootsOf(nodeFileSystem, dir, consistencyRanges(older, size)).map(digestToBase64)
}

/** The keys that the newest lines of the journal state. A reader compares them with keys that it has kept. */
export function statedKeys(dir: string): KeyHistory {
  const changes: LineOf<'key' | 'revoke' | 'genesis'>[] = []
  for (const { line } of journalBackwards(nodeFileSystem, dir)) {
    if (line.kind === 'key' || line.kind === 'revoke' || line.kind === 'genesis') changes.push(line)
    if (line.kind !== 'seal' || line.keys === undefined) continue
    const keys = KeyHistory.of(line.keys)
    for (const change of changes.reverse()) keys.takeSigned(change)
    return keys
  }
  const keys = new KeyHistory()
  for (const change of changes.reverse()) keys.takeSigned(change)
  return keys
}

export function keyLines(keys: KeyHistory): string[] {
  return keys.spans().map(([key, from, until]) => `${key} ${from}${until === null ? '' : ` ${until}`}`)
}
