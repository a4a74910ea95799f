// Compares the checkpoints beside the log, and heads kept elsewhere, with the tree.

import { daysBetween } from '../format/day.js'
import { checkpointFile, JOURNAL_FILE } from '../format/paths.js'
import { judgeNote } from '../seal/note.js'
import { digestToBase64 } from '../tree/journal-codec.js'
import type { CheckpointWalk, KeptCheckpoint } from './checkpoint-walk.js'
import type { ClockCheck } from './clock-check.js'
import type { CosignedHead } from './cosigned-head.js'
import type { Findings } from './findings.js'
import type { JournalEntry } from './journal-walk.js'
import type { FailureKind } from './report.js'
import type { Claim } from './tree-check.js'
import type { TrustedKeys } from './trusted-keys.js'

export interface CheckpointParts {
  readonly walk: CheckpointWalk
  readonly keys: TrustedKeys
  /** Whether each signature is checked; else that of the newest, and of those whose root differs. */
  readonly judged: boolean
  readonly against: readonly KeptCheckpoint[]
  /** Checkpoints of older days may be removed. */
  readonly retentionDays: number
  /** Bytes of the journal before the checkpoints were looked at; later seals may have theirs since. */
  readonly coveredSize: number
  /** Where witnesses are required. */
  readonly cosigned: CosignedHead | undefined
  readonly clock: ClockCheck
  readonly findings: Findings
}

interface SizeClaim extends Claim {
  readonly checkpoint: KeptCheckpoint
  readonly isKeptElsewhere: boolean
}

interface Unnoted {
  /** Of the first journal line. */
  readonly number: number
  count: number
}

export class CheckpointCheck {
  readonly #parts: CheckpointParts
  readonly #judged = new Map<KeptCheckpoint, boolean>()
  /** Seals without a checkpoint, by the day on which they were sealed. */
  readonly #unnoted = new Map<string, Unnoted>()
  readonly #open: Set<KeptCheckpoint>
  #pending: JournalEntry | undefined
  #newest: KeptCheckpoint | undefined
  #end = 0
  #isGrowing = false
  /** On which the last journal line was written. */
  #lastDay = ''
  /** The newest checkpoint that agrees with the tree. */
  head: { readonly size: number; readonly root: string } | undefined

  constructor(parts: CheckpointParts) {
    this.#parts = parts
    this.#open = new Set(parts.against)
  }

  /** The claims about the tree up to and including the journal line. */
  *claimsAt(entry: JournalEntry): Generator<SizeClaim, void, void> {
    const { walk, clock, findings, against } = this.#parts
    const size = entry.leaf + 1
    clock.line(entry.number, entry.line.at)
    let isNoted = false
    for (const checkpoint of walk.upTo(size)) {
      const { file, line } = checkpoint
      if (this.#parts.judged && !this.#isSigned(checkpoint)) continue
      if (checkpoint.size === size) {
        isNoted = true
        yield {
          size,
          root: checkpoint.root,
          checkpoint,
          isKeptElsewhere: false,
          isSigned: () => this.#isSigned(checkpoint),
          refuted: () => {
            const message = `its root is not that of the ${size} leaves`
            findings.fail({ file, line, kind: 'inconsistent', message })
          },
        }
      } else if ((checkpoint.size > entry.first || entry.first === this.#end) && this.#isSigned(checkpoint)) {
        const message = `no journal line ends a tree of ${checkpoint.size} leaves`
        findings.fail({ file, line, kind: 'bad_checkpoint', message })
      }
    }
    this.#end = size
    this.#lastDay = entry.line.at.slice(0, 10)
    this.#note(entry, isNoted)
    for (const checkpoint of against) {
      if (checkpoint.size !== size) continue
      const refuted = () => this.#fork(checkpoint)
      yield { size, root: checkpoint.root, checkpoint, isKeptElsewhere: true, isSigned: () => true, refuted }
    }
  }

  /** The claim agrees with the tree. */
  agreed({ checkpoint, isKeptElsewhere, size, root }: SizeClaim): void {
    if (isKeptElsewhere) {
      this.#open.delete(checkpoint)
      return
    }
    this.#parts.findings.checkpoints++
    this.#newest = checkpoint
    this.#parts.cosigned?.offer(checkpoint)
    this.#parts.clock.checkpoint(checkpoint.note)
    this.head = { size, root: digestToBase64(root) }
  }

  /** @param size number of leaves that the journal covers. */
  finish(size: number): void {
    const { walk, findings } = this.#parts
    if (this.#newest !== undefined) this.#isSigned(this.#newest)
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
    const known = this.#judged.get(checkpoint)
    if (known !== undefined) return known
    const kind = signatureFailure(checkpoint, this.#parts.keys)
    const { file, line } = checkpoint
    if (kind !== undefined) {
      const message = 'the signature of the checkpoint is not that of a trusted key'
      this.#parts.findings.fail({ file, line, kind, message })
      this.#judged.set(checkpoint, false)
    }
    return kind === undefined
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

  /** A writer that died may leave its last seal without a checkpoint; the next one adds it. */
  #reportUnnoted(): void {
    const { findings, retentionDays } = this.#parts
    for (const [day, { number, count }] of this.#unnoted) {
      if (daysBetween(day, this.#lastDay) > retentionDays) continue
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
  { note, origin, size }: KeptCheckpoint,
  keys: TrustedKeys,
): FailureKind | undefined {
  const { kind } = judgeNote(note, origin, keys.allAt(size - 1))
  if (kind === 'verified') return undefined
  if (kind === 'bad_signature') return kind
  const byAny = judgeNote(note, origin, keys.allAt(undefined)).kind
  return byAny === 'verified' ? 'revoked_key' : byAny
}
