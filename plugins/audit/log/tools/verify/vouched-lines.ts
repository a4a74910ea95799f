// Which signatures of journal lines and checkpoints are checked. A checkpoint that agrees with the tree and is signed by
// a key covers all lines and roots before it: what this key has signed before states nothing more, and is not checked.

import type { KeptCheckpoint } from './checkpoint-walk.js'
import type { JournalEntry } from './journal-walk.js'
import type { Mark } from './tree-check.js'

export interface MarkedCheckpoint {
  readonly checkpoint: KeptCheckpoint
  readonly mark: Mark
}

/** A journal line with the checkpoints that end in it and agree with the tree. */
export interface MarkedLine {
  readonly entry: JournalEntry
  /** Where the root in the line agrees. */
  readonly mark: Mark | undefined
  readonly checkpoints: readonly MarkedCheckpoint[]
}

export interface Signatures {
  /** Ids of the keys whose signatures the checkpoint should have. */
  signersOf(checkpoint: KeptCheckpoint): readonly string[]
  /** Checks the signatures, and reports one that does not fit. */
  isSigned(checkpoint: KeptCheckpoint): boolean
}

export interface JudgedLines {
  /** The checkpoints of each line whose signatures fit or are vouched for. */
  readonly valid: readonly (readonly KeptCheckpoint[])[]
  /** The newest mark with a signature. */
  readonly confirmed: Mark | undefined
}

/** Checks the signatures for which no later one in `lines` vouches. */
export function judgeLines(lines: readonly MarkedLine[], { signersOf, isSigned }: Signatures): JudgedLines {
  const vouching = new Set<string>()
  let confirmed: Mark | undefined
  const isValid = ({ checkpoint, mark }: MarkedCheckpoint) => {
    const signers = signersOf(checkpoint)
    if (signers.length > 0 && signers.every((keyId) => vouching.has(keyId))) return true
    if (!isSigned(checkpoint)) return false
    for (const keyId of signers) vouching.add(keyId)
    confirmed ??= mark
    return true
  }
  // The newest ones first, because they vouch for those before.
  const valid = lines.toReversed().map(({ entry, mark, checkpoints }) => {
    const signed = checkpoints.toReversed().filter(isValid).reverse()
    if (!vouching.has(entry.line.key_id) && entry.isSigned()) confirmed ??= mark
    return signed.map(({ checkpoint }) => checkpoint)
  })
  return { valid: valid.reverse(), confirmed }
}
