// Compares the checkpoints beside the log, and heads kept elsewhere, with the tree.

import { daysBetween } from '../../format/day.js'
import { checkpointFile, JOURNAL_FILE } from '../../format/paths.js'
import { digestToBase64 } from '../../tree/journal-codec.js'
import { judgeNote, signersOf } from '../../tree/note.js'
import type { CheckpointWalk, KeptCheckpoint } from './checkpoint-walk.js'
import type { ClockCheck } from './clock-check.js'
import type { CosignedHead } from './cosigned-head.js'
import type { Findings } from './findings.js'
import type { JournalEntry } from './journal-walk.js'
import type { FailureKind } from './report.js'
import type { Claim, Mark } from './tree-check.js'
import type { TrustedKeys } from './trusted-keys.js'

export interface CheckpointParts {
  readonly walk: CheckpointWalk
  readonly keys: TrustedKeys
  readonly against: readonly KeptCheckpoint[]
  /** Bytes of the journal before the checkpoints were looked at; later seals may have theirs since. */
  readonly coveredSize: number
  /** Where witnesses are required. */
  readonly cosigned: CosignedHead | undefined
  readonly clock: ClockCheck
  readonly findings: Findings
  readonly onCheckpoint: OnCheckpoint | undefined
}

/** Called for each checkpoint that agrees with the tree. Its own signature may be unchecked: `signatureFailure`. */
export type OnCheckpoint = (checkpoint: KeptCheckpoint, keys: TrustedKeys) => void

interface Unnoted {
  /** Of the first journal line. */
  readonly number: number
  count: number
}

interface MarkedCheckpoint {
  readonly checkpoint: KeptCheckpoint
  readonly mark: Mark
}

/** A journal line with the checkpoints that end in it and agree with the tree. */
interface MarkedLine {
  readonly entry: JournalEntry
  /** Where the root in the line agrees. */
  readonly mark: Mark | undefined
  readonly checkpoints: readonly MarkedCheckpoint[]
  /** Whether a signed checkpoint ends in it that does not agree. */
  readonly isNoted: boolean
}

/** Lines at which one retention was in force. */
interface RetentionPeriod {
  readonly days: number | undefined
  /** On which the last of them was written. */
  last: string
}

export class CheckpointCheck {
  readonly #parts: CheckpointParts
  /** Those whose signature does not count. */
  readonly #unsigned = new Set<KeptCheckpoint>()
  /** Lines whose signatures, and those of their checkpoints, are not judged yet. */
  #lines: MarkedLine[] = []
  /** Seals without a checkpoint, by the day on which they were sealed. */
  readonly #unnoted = new Map<string, Unnoted>()
  readonly #open: Set<KeptCheckpoint>
  #pending: JournalEntry | undefined
  #newest: KeptCheckpoint | undefined
  #end = 0
  #isGrowing = false
  readonly #retention: RetentionPeriod[] = []

  constructor(parts: CheckpointParts) {
    this.#parts = parts
    this.#open = new Set(parts.against)
  }

  /**
   * Takes the next journal line.
   *
   * @param mark where the root in the line agrees with the tree.
   * @param settle compares a claim with the tree up to and including the line.
   */
  take(entry: JournalEntry, mark: Mark | undefined, settle: (claim: Claim) => Mark | undefined): void {
    const size = entry.leaf + 1
    let checkpoints: MarkedCheckpoint[] = []
    let isNoted = false
    for (const checkpoint of this.#parts.walk.upTo(size)) {
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
    this.#end = size
    this.#retain(entry)
    this.#lines.push({ entry, mark, checkpoints, isNoted })
    for (const head of this.#parts.against) {
      const refuted = () => this.#fork(head)
      if (head.size !== size) continue
      if (settle({ size, root: head.root, isSigned: () => true, refuted }) !== undefined)
        this.#open.delete(head)
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
    const { keys, clock, cosigned, findings, onCheckpoint } = this.#parts
    const vouching = new Set<string>()
    let confirmed: Mark | undefined
    const isValid = ({ checkpoint, mark }: MarkedCheckpoint) => {
      const { note, origin, size } = checkpoint
      const signers = signersOf(note, origin, keys.allAt(size - 1))
      if (signers.length > 0 && signers.every((keyId) => vouching.has(keyId))) return true
      if (!this.#isSigned(checkpoint)) return false
      for (const keyId of signers) vouching.add(keyId)
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
        findings.checkpoints++
        this.#newest = checkpoint
        cosigned?.offer(checkpoint)
        onCheckpoint?.(checkpoint, keys)
        clock.checkpoint(checkpoint.note)
      }
      this.#note(entry, isNoted || valid.length > 0)
    }
    return confirmed
  }

  #claimOf(checkpoint: KeptCheckpoint): Claim {
    const { file, line, size, root } = checkpoint
    const refuted = () => {
      const message = `its root is not that of the ${size} leaves`
      this.#parts.findings.fail({ file, line, kind: 'inconsistent', message })
    }
    return { size, root, isSigned: () => this.#isSigned(checkpoint), refuted }
  }

  /** Reports a checkpoint that does not end with a journal line, unless lines are missing there. */
  #reportStray(checkpoint: KeptCheckpoint, { first }: JournalEntry): void {
    const { file, line, size } = checkpoint
    const isExplained = size <= first && first !== this.#end
    if (!this.#isSigned(checkpoint) || isExplained) return
    const message = `no journal line ends a tree of ${size} leaves`
    this.#parts.findings.fail({ file, line, kind: 'bad_checkpoint', message })
  }

  /** The newest checkpoint that agrees with the tree. */
  get head(): { readonly size: number; readonly root: string } | undefined {
    const newest = this.#newest
    return newest && { size: newest.size, root: digestToBase64(newest.root) }
  }

  /** @param size number of leaves that the journal covers. */
  finish(size: number): void {
    const { walk, findings } = this.#parts
    let largest: KeptCheckpoint | undefined
    for (const checkpoint of walk.upTo(Number.POSITIVE_INFINITY)) {
      if (this.#isSigned(checkpoint)) largest = checkpoint
    }
    if (largest !== undefined) {
      const message = `${largest.file}:${largest.line} covers ${largest.size} leaves, the journal ends at ${size}`
      findings.tampered('truncated', 1)
      findings.fail({ file: JOURNAL_FILE, line: findings.journalLines + 1, kind: 'truncated', message })
    }
    for (const checkpoint of this.#open) {
      if (checkpoint.size <= size) this.#fork(checkpoint)
      else {
        const message = `${checkpoint.file} covers ${checkpoint.size} leaves, the log has ${size}`
        findings.fail({ file: JOURNAL_FILE, line: 0, kind: 'rolled_back', message })
      }
    }
    this.#reportUnnoted()
  }

  #fork(checkpoint: KeptCheckpoint): void {
    if (!this.#open.delete(checkpoint)) return
    const message = `the root of its ${checkpoint.size} leaves is not that of ${checkpoint.file}`
    this.#parts.findings.fail({ file: JOURNAL_FILE, line: 0, kind: 'forked', message })
  }

  /** Reports a signature that is not of a trusted key, once. */
  #isSigned(checkpoint: KeptCheckpoint): boolean {
    if (this.#unsigned.has(checkpoint)) return false
    const kind = signatureFailure(checkpoint, this.#parts.keys)
    if (kind === undefined) return true
    const { file, line } = checkpoint
    const message = 'the signature of the checkpoint is not that of a trusted key'
    this.#parts.findings.fail({ file, line, kind, message })
    this.#unsigned.add(checkpoint)
    return false
  }

  #note(entry: JournalEntry, isNoted: boolean): void {
    if (entry.end > this.#parts.coveredSize) {
      this.#isGrowing = true
      return
    }
    if (entry.line.kind !== 'seal') return
    if (this.#pending !== undefined) {
      const day = this.#pending.line.at.slice(0, 10)
      const known = this.#unnoted.get(day)
      if (known === undefined) this.#unnoted.set(day, { number: this.#pending.number, count: 1 })
      else known.count++
    }
    this.#pending = isNoted ? undefined : entry
  }

  #retain({ line, retentionDays: days }: JournalEntry): void {
    const last = line.at.slice(0, 10)
    const period = this.#retention.at(-1)
    if (period !== undefined && period.days === days) period.last = last
    else this.#retention.push({ days, last })
  }

  /** A writer that died may leave its last seal without a checkpoint; the next one adds it. */
  #reportUnnoted(): void {
    const { findings } = this.#parts
    for (const [day, { number, count }] of this.#unnoted) {
      if (this.#retention.some(({ days, last }) => days !== undefined && daysBetween(day, last) > days))
        continue
      const message = `${count} seals have no checkpoint, the first is ${JOURNAL_FILE}:${number}`
      findings.fail({ file: checkpointFile(day), line: 0, kind: 'missing_checkpoint', message })
    }
    // The first checkpoint follows the genesis and at most one seal.
    if (
      !this.#isGrowing &&
      findings.journalLines > 2 &&
      this.#newest === undefined &&
      this.#unnoted.size === 0
    ) {
      const message = 'no checkpoint agrees with the journal'
      findings.fail({ file: JOURNAL_FILE, line: 0, kind: 'missing_checkpoint', message })
    }
  }
}

/** Why the checkpoint's signature does not count; undefined where it does. */
export function signatureFailure(
  { note, origin, size }: Omit<KeptCheckpoint, 'file' | 'line'>,
  keys: TrustedKeys,
): FailureKind | undefined {
  const { kind } = judgeNote(note, origin, keys.allAt(size - 1))
  if (kind === 'verified') return undefined
  if (kind === 'bad_signature') return kind
  const byAny = judgeNote(note, origin, keys.allAt(undefined)).kind
  return byAny === 'verified' ? 'revoked_key' : byAny
}
