// The state of the log at a head, for a writer that opens it and a verification that continues an earlier one. A seal that
// repeats what the lines before it say is believed only if a head covers it whose owner has compared it with those lines:
// the newest checkpoint of the writer's own key, or the head that the verifier has kept. Without one, for example after a
// rotation, the journal is read from its first line.

import type { Head } from '../format/checkpoint.js'
import type { Digest } from '../format/digest.js'
import type { JournalLine, LineOf } from '../format/journal-line.js'
import { inclusionRanges } from '../format/merkle-proof.js'
import { verifierFromLine } from '../keys/public-key.js'
import { hasSigned } from '../keys/signatures.js'
import { alignedSubtrees, LeafRange } from '../merkle/leaf-range.js'
import { leafHash, verifyInclusion } from '../merkle/tree-hash.js'
import { inconsistentLog } from './inconsistent-log.js'
import { journalBackwards, journalLines, type StoredJournalLine } from './journal-file.js'
import { JournalState } from './journal-state.js'
import type { LogFiles } from './sealed-leaves.js'
import { TreeStore } from './tree-store.js'

// Lines between two turns of the event loop.
const SLICE = 512

/** The state after the lines up to and including `line`. */
interface ResumedState {
  readonly state: JournalState
  /** The leaves up to that line; undefined if the files of the tree do not lead to the checkpoint with these lines. */
  readonly range: LeafRange | undefined
  /** Offset after the line. */
  readonly offset: number
}

/**
 * The state after the journal line that `head` covers, or after the last one. Every line
 * that counts is in the tree under its root; the roots of the records between them come from the files of the tree.
 *
 * @param own the newest head whose owner has compared the lines that it covers.
 * @param end bytes of the journal.
 * @throws {AuditError} `log_unlinked` if a line does not follow, or is not signed by a key that is trusted there.
 */
export async function resumedState(
  { port, dir }: LogFiles,
  genesis: LineOf<'genesis'>,
  { head, own }: { readonly head: Head | undefined; readonly own: Head | undefined },
  end: number,
): Promise<ResumedState> {
  const store = new TreeStore(dir, port)
  const known = own && confirmedSeal({ port, dir }, store, genesis, own, end)
  const state = known?.state ?? new JournalState()
  let range = known === undefined ? new LeafRange() : store.range(state.size)
  let offset = known?.offset ?? 0
  let count = 0
  for (const stored of journalLines(port, dir, offset, end)) {
    if (head !== undefined && state.size >= head.size) break
    const line = followingLine(state, stored, true)
    range = range && extended(range, store, line, leafHash(stored.bytes))
    state.apply(line)
    offset = stored.end
    if (state.size === own?.size && range?.root() !== own.root) range = undefined
    if (++count % SLICE === 0) await new Promise((resolve) => setImmediate(resolve))
  }
  if (head === undefined || state.size === head.size)
    return { state, offset, range: range?.root() === head?.root ? range : undefined }
  throw inconsistentLog(
    `its newest checkpoint has size ${head.size}, and no journal line is leaf ${head.size - 1}`,
  )
}

/** Adds the leaves of the line's ranges, as the files of the tree have them, and the line; undefined if they have not. */
function extended(
  range: LeafRange,
  store: TreeStore,
  { leaf }: JournalLine,
  hash: Digest,
): LeafRange | undefined {
  for (const { start, level } of alignedSubtrees(range.end, leaf)) {
    const root = store.node(level, start / 2 ** level)
    if (root === undefined) return undefined
    range.append(root, level)
  }
  if (store.hashes(0, leaf, 1)[0] !== hash) return undefined
  range.append(hash)
  return range
}

/**
 * The line, if it follows those in `state` and a key that is trusted there has signed it.
 *
 * @param isCovered whether a signed root covers the line; the signature of a seal then needs no check.
 */
export function followingLine(
  state: JournalState,
  { line, start }: StoredJournalLine,
  isCovered = false,
): JournalLine {
  if (line === undefined) throw inconsistentLog(`byte ${start} of audit.journal begins no journal line`)
  const where = `the journal line at byte ${start}`
  const wrong = state.whyNot(line) ?? state.whyNotSummary(line)
  if (wrong !== undefined) throw inconsistentLog(`${where} does not follow: ${wrong}`)
  const key = line.kind === 'genesis' ? verifierFromLine(line.key) : state.keys.at(line.key_id, line.leaf)
  if (key !== undefined && ((isCovered && line.kind === 'seal') || hasSigned(line, key))) return line
  throw inconsistentLog(`${where} is not signed by a key that is trusted there`)
}

/** The state in the newest seal that repeats one and that the files of the tree prove to be under `own`. */
function confirmedSeal(
  { dir, port }: LogFiles,
  store: TreeStore,
  genesis: LineOf<'genesis'>,
  own: Head,
  end: number,
): { readonly state: JournalState; readonly offset: number } | undefined {
  const seal = newestSummary({ dir, port }, own, end)
  const state = seal && JournalState.after(seal.line)
  if (seal === undefined || state === undefined) return undefined
  // A damaged leaf beside the genesis does not require reading everything, so its own signature is checked instead.
  const first = verifierFromLine(genesis.key)
  const isOfLog = state.logId === genesis.log_id && state.keys.has(first.keyId) && hasSigned(genesis, first)
  const isConfirmed = isOfLog && isLeafOf(store, own, leafHash(seal.bytes), seal.line.leaf)
  return isConfirmed ? { state, offset: seal.end } : undefined
}

/** The newest seal before the byte `end` of the journal that repeats a state, and that a checkpoint covers. */
function newestSummary({ dir, port }: LogFiles, { size }: Head, end: number) {
  for (const stored of journalBackwards(port, dir, end)) {
    const { line } = stored
    if (line.kind === 'seal' && line.ends !== undefined && line.leaf < size) return stored
  }
  return undefined
}

/** Whether the files of the tree prove that `leaf` has this index under the root of `head`. */
function isLeafOf(store: TreeStore, { size, root }: Head, leaf: Digest, index: number): boolean {
  const path = inclusionRanges(index, size).flatMap((range) => store.rootOf(range) ?? [])
  return verifyInclusion(leaf, { index, size }, path, root)
}
