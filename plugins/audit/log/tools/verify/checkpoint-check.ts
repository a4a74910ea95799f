// Compares the checkpoints beside the log, and heads kept elsewhere, with the tree.

import { digestToBase64 } from '../../format/digest.js'
import { signersOf } from '../../format/note.js'
import { checkpointFile, JOURNAL_FILE } from '../../format/paths.js'
import type { CheckpointWalk } from './checkpoint-walk.js'
import type { Context } from './inventory.js'
import type { JournalEntry } from './journal-walk.js'
import { type SavedCheckpoint, signatureFailure } from './kept-checkpoint.js'
import type { Claim, Mark } from './tree-check.js'
import type { ClockCheck, CosignedHeadSearch } from './witnesses.js'

export interface CheckpointOptions {
  readonly walk: CheckpointWalk
  /** Heads kept elsewhere. */
  readonly against: readonly SavedCheckpoint[]
  /** Set if witnesses are required. */
  readonly cosigned: CosignedHeadSearch | undefined
  readonly clock: ClockCheck
  /** Checks signatures that others cover, too. */
  readonly strict: boolean
}

interface MarkedCheckpoint {
  readonly checkpoint: SavedCheckpoint
  readonly mark: Mark
}

/** A journal line with the checkpoints that end in it and agree with the tree. */
interface MarkedLine {
  readonly entry: JournalEntry
  /** Set if the root in the line agrees. */
  readonly mark: Mark | undefined
  readonly checkpoints: readonly MarkedCheckpoint[]
  /** Whether a signed checkpoint ends in it that does not agree. */
  readonly isNoted: boolean
}

export class CheckpointCheck {
  readonly #context: Context
  readonly #options: CheckpointOptions
  readonly #missing: MissingCheckpoints
  /** Checkpoints whose signature does not count. */
  readonly #unsigned = new Set<SavedCheckpoint>()
  /** Lines whose signatures, and those of their checkpoints, are not judged yet. */
  #lines: MarkedLine[] = []
  /** Heads kept elsewhere that no line has reached. */
  readonly #open: Set<SavedCheckpoint>
  /** The newest checkpoint that agrees with the tree. */
  #newest: SavedCheckpoint | undefined
  /** Leaves so far. */
  #size = 0

  constructor(context: Context, options: CheckpointOptions) {
    this.#context = context
    this.#options = options
    this.#missing = new MissingCheckpoints(context)
    this.#open = new Set(options.against)
    this.#newest = context.beginning?.head
    this.#size = context.beginning?.head.size ?? 0
  }

  /**
   * Takes the next journal line.
   *
   * @param mark set if the root in the line agrees with the tree.
   * @param settle compares a claim with the tree up to and including the line.
   */
  take(entry: JournalEntry, mark: Mark | undefined, settle: (claim: Claim) => Mark | undefined): void {
    const size = entry.leaf + 1
    let checkpoints: MarkedCheckpoint[] = []
    let isNoted = false
    for (const checkpoint of this.#options.walk.upTo(size)) {
      if (checkpoint.size !== size) {
        this.#reportStray(checkpoint, entry)
        continue
      }
      const agreed = settle(this.#claimOf(checkpoint))
      if (agreed === undefined) {
        isNoted = this.#isSigned(checkpoint) || isNoted
        continue
      }
      // A signed root shows that another one, which agreed with the leaves on disk, is not that of the tree.
      if (checkpoints[0]?.checkpoint.root !== checkpoint.root) {
        for (const other of checkpoints) this.#isSigned(other.checkpoint)
        checkpoints = []
      }
      checkpoints.push({ checkpoint, mark: agreed })
    }
    this.#size = size
    this.#lines.push({ entry, mark, checkpoints, isNoted })
    for (const head of this.#options.against) {
      if (head.size !== size) continue
      const claim = { size, root: head.root, isSigned: () => true, refuted: () => this.#fork(head) }
      if (settle(claim) !== undefined) this.#open.delete(head)
    }
  }

  /**
   * Judges the lines since the last time. Returns the newest of their marks that has a signature. A checkpoint that agrees
   * with the tree and is signed by a key covers all lines and roots before it: what this key has signed before states
   * nothing more, and is not checked.
   */
  judge(): Mark | undefined {
    const lines = this.#lines
    this.#lines = []
    const { clock, cosigned, strict } = this.#options
    const { keys, findings } = this.#context
    const vouching = new Set<string>()
    let confirmed: Mark | undefined
    const isValid = ({ checkpoint, mark }: MarkedCheckpoint) => {
      const { note, origin, size } = checkpoint
      const signers = signersOf(note, origin, keys.allAt(size - 1))
      if (signers.length > 0 && signers.every((keyId) => vouching.has(keyId))) return true
      if (!this.#isSigned(checkpoint)) return false
      if (!strict) for (const keyId of signers) vouching.add(keyId)
      confirmed ??= mark
      return true
    }
    // The newest ones first, because they vouch for those before.
    const judged = lines.toReversed().map(({ entry, mark, checkpoints, isNoted }) => {
      const valid = checkpoints.toReversed().filter(isValid).reverse()
      if (!vouching.has(entry.line.key_id) && entry.isSigned()) confirmed ??= mark
      return { entry, valid, isNoted }
    })
    for (const { entry, valid, isNoted } of judged.reverse()) {
      clock.line(entry.number, entry.line.at)
      for (const { checkpoint } of valid) {
        findings.totals.checkpoints++
        this.#newest = checkpoint
        cosigned?.offer(checkpoint)
        clock.checkpoint(checkpoint.note)
      }
      this.#missing.take(entry, isNoted || valid.length > 0)
    }
    return confirmed
  }

  #claimOf(checkpoint: SavedCheckpoint): Claim {
    const { file, line, size, root } = checkpoint
    const refuted = () => {
      const message = `its root is not that of the ${size} leaves`
      this.#context.findings.fail(file, line, 'inconsistent', message)
    }
    return { size, root, isSigned: () => this.#isSigned(checkpoint), refuted }
  }

  /** Reports a checkpoint that does not end with a journal line, unless lines are missing there. */
  #reportStray(checkpoint: SavedCheckpoint, { first }: JournalEntry): void {
    const { file, line, size } = checkpoint
    const isExplained = size <= first && first !== this.#size
    if (!this.#isSigned(checkpoint) || isExplained) return
    this.#context.findings.fail(file, line, 'bad_checkpoint', `no journal line ends a tree of ${size} leaves`)
  }

  /** The newest checkpoint that agrees with the tree. */
  get head(): { readonly size: number; readonly root: string } | undefined {
    const newest = this.#newest
    return newest && { size: newest.size, root: digestToBase64(newest.root) }
  }

  /** @param size number of leaves that the journal covers. */
  finish(size: number): void {
    const { findings, beginning } = this.#context
    let largest: SavedCheckpoint | undefined
    for (const checkpoint of this.#options.walk.upTo(Number.POSITIVE_INFINITY)) {
      if (this.#isSigned(checkpoint)) largest = checkpoint
    }
    if (largest !== undefined) {
      const message = `${largest.file}:${largest.line} covers ${largest.size} leaves, the journal ends at ${size}`
      findings.tampered('truncated')
      const line = (beginning?.lines ?? 0) + findings.totals.journalLines + 1
      findings.fail(JOURNAL_FILE, line, 'truncated', message)
    }
    for (const head of this.#open) {
      const message = `${head.file} covers ${head.size} leaves, the log has ${size}`
      if (head.size <= size) this.#fork(head)
      else findings.fail(JOURNAL_FILE, 0, 'rolled_back', message)
    }
    this.#missing.finish(this.#newest !== undefined)
  }

  #fork(head: SavedCheckpoint): void {
    if (!this.#open.delete(head)) return
    const message = `the root of its ${head.size} leaves is not that of ${head.file}`
    this.#context.findings.fail(JOURNAL_FILE, 0, 'forked', message)
  }

  /** Reports a signature that is not of a trusted key, once. */
  #isSigned(checkpoint: SavedCheckpoint): boolean {
    if (this.#unsigned.has(checkpoint)) return false
    const kind = signatureFailure(checkpoint, this.#context.keys)
    if (kind === undefined) return true
    const message = 'the signature of the checkpoint is not that of a trusted key'
    this.#context.findings.fail(checkpoint.file, checkpoint.line, kind, message)
    this.#unsigned.add(checkpoint)
    return false
  }
}

interface Unnoted {
  /** Number of the first journal line. */
  readonly number: number
  count: number
}

/** Every seal has a checkpoint, except the last one of a writer that died and those whose files retention has removed. */
class MissingCheckpoints {
  readonly #context: Context
  /** Seals without a checkpoint, by the day on which they were sealed. */
  readonly #unnoted = new Map<string, Unnoted>()
  /** Files of days before it may have been removed, counted in days since 1970. */
  #firstKept = Number.NEGATIVE_INFINITY
  /** The last seal, if it has no checkpoint: a writer that died may leave it so, and the next one adds it. */
  #pending: JournalEntry | undefined
  #isGrowing = false

  constructor(context: Context) {
    this.#context = context
  }

  /** Takes the next journal line. */
  take(entry: JournalEntry, isNoted: boolean): void {
    const { line, retentionDays: days } = entry
    if (days !== undefined) this.#firstKept = Math.max(this.#firstKept, dayNumber(line.at) - days)
    // Later seals may have got their checkpoints after the inventory.
    this.#isGrowing ||= entry.end > this.#context.coveredSize
    if (this.#isGrowing || line.kind !== 'seal') return
    if (this.#pending !== undefined) {
      const day = this.#pending.line.at.slice(0, 10)
      const known = this.#unnoted.get(day) ?? { number: this.#pending.number, count: 0 }
      known.count++
      this.#unnoted.set(day, known)
    }
    this.#pending = isNoted ? undefined : entry
  }

  /** @param hasAny whether a checkpoint agrees with the tree. */
  finish(hasAny: boolean): void {
    const { findings } = this.#context
    for (const [day, { number, count }] of this.#unnoted) {
      if (dayNumber(day) < this.#firstKept) continue
      const message = `${count} seals have no checkpoint, the first is ${JOURNAL_FILE}:${number}`
      findings.fail(checkpointFile(day), 0, 'missing_checkpoint', message)
    }
    // The first checkpoint follows the genesis and at most one seal.
    const isExpected = !this.#isGrowing && findings.totals.journalLines > 2 && this.#unnoted.size === 0
    if (!hasAny && isExpected) {
      findings.fail(JOURNAL_FILE, 0, 'missing_checkpoint', 'no checkpoint agrees with the journal')
    }
  }
}

function dayNumber(instant: string): number {
  return Math.floor(Date.parse(instant) / 86_400_000)
}
