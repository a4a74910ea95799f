// Check the bytes of uploaded files before they are restored: a holder of the upload key without the log's key cannot
// make bytes that pass.

import { createHash } from 'node:crypto'
import { nodeFileSystem } from '../../files/file-system.js'
import { linesIn } from '../../files/lines.js'
import { checkLine } from '../../format/check-line.js'
import { type Head, parseCheckpoint } from '../../format/checkpoint.js'
import type { Digest } from '../../format/digest.js'
import { parseJournalLine } from '../../format/journal-codec.js'
import { coveredBy, type JournalLine, type PlacedRange, sealedRanges } from '../../format/journal-line.js'
import { objectIn, recordPlace, shortLogId } from '../../format/stored-record.js'
import type { SignatureVerifier, TrustedKey } from '../../format/verifier.js'
import { LeafRange } from '../../merkle/leaf-range.js'
import { leafHash } from '../../merkle/tree-hash.js'
import { notePieces } from '../../tree/checkpoint-file.js'
import { journalLines } from '../../tree/journal-file.js'
import { KeyHistory } from '../../tree/key-history.js'
import { storedLeaves } from '../../tree/tree-store.js'
import { signatureFailure } from '../verify/kept-checkpoint.js'
import type { FileJudge, Piece } from './joined-file.js'

const NEWLINE = 0x0a
/** Numbers that a session may leave out between two records of a contested place. */
const MAX_MISSING = 100_000

/** The lines of a piece. The bytes after the last newline count as one, which is not a line of a log. */
function linesOfPiece(bytes: Buffer): Buffer[] {
  const isWhole = bytes.length === 0 || bytes.at(-1) === NEWLINE
  return [...linesIn(bytes), ...(isWhole ? [] : [Buffer.alloc(0)])]
}

/** Journal lines of one log, each signed by a key that the lines before it trust, in the order of their leaves. */
export class JournalJudge implements FileJudge {
  readonly knownEnd = undefined
  readonly #id: string
  readonly #given: readonly SignatureVerifier[] | undefined
  #last: JournalLine | undefined
  #keys = new KeyHistory()

  /**
   * @param id first digits of the log's id.
   * @param given one of them must be the key of the genesis; without them any log of this id is accepted.
   */
  constructor(id: string, given: readonly TrustedKey[] | undefined) {
    this.#id = id
    this.#given = given
  }

  isForeign(): boolean {
    return false
  }

  accepts({ bytes, isContested }: Piece): boolean {
    let last = this.#last
    const keys = KeyHistory.of(this.#keys.spans())
    for (const raw of linesOfPiece(bytes)) {
      const line = parseJournalLine(raw)
      if (line === undefined || !follows(line, last, isContested) || !this.#isOwn(line)) return false
      if (!keys.takeSigned(line)) return false
      last = line
    }
    this.#last = last
    this.#keys = keys
    return true
  }

  #isOwn(line: JournalLine): boolean {
    if (line.kind !== 'genesis') return true
    const isGiven = this.#given?.some(({ keyId }) => keyId === line.key_id) ?? true
    return isGiven && line.leaf === 0 && shortLogId(line.log_id) === this.#id
  }
}

/** @param isExact whether no line may be missing between them, so that a copy of a later line does not take its place. */
function follows(line: JournalLine, last: JournalLine | undefined, isExact: boolean): boolean {
  if (last !== undefined && line.log_id !== last.log_id) return false
  const first = (last?.leaf ?? -1) + 1
  return isExact ? line.leaf === first + coveredBy(line) : line.leaf >= first
}

/**
 * Accepts checkpoints that a key of the log has signed. Others may be in the same object: a writer uploads its whole
 * file.
 */
export function checkpointJudge(origin: string, keys: KeyHistory): FileJudge {
  const signed = (bytes: Buffer) =>
    [...notePieces(bytes, `${origin}\n`)].flatMap(({ note, torn, text }) => {
      const head = note === undefined ? undefined : parseCheckpoint(note.text)
      if (torn || note === undefined || head?.origin !== origin) return []
      const isSigned = signatureFailure({ ...head, note }, keys) === undefined
      return isSigned ? [Buffer.from(text)] : []
    })
  return {
    knownEnd: undefined,
    isForeign: (bytes) => bytes.indexOf(`${origin}\n`) !== 0,
    accepts: ({ bytes }) => signed(bytes).length > 0,
    partOf: (bytes) => Buffer.concat(signed(bytes)),
  }
}

/** Accepts covers whose hashes the journal states. */
export function coverJudge(hashes: ReadonlySet<string>): FileJudge {
  const isStated = (bytes: Buffer) => hashes.has(createHash('sha256').update(bytes).digest('base64'))
  return { knownEnd: 0, isForeign: (bytes) => !isStated(bytes), accepts: () => true }
}

/** Accepts hashes of the tree. The tree is derived, so what several objects contest is left out and computed again. */
export const treeJudge: FileJudge = {
  knownEnd: 0,
  isForeign: () => false,
  accepts: ({ isContested }) => !isContested,
}

/**
 * Accepts records of one day. They are checked if several objects contest the place, and after the sealed part;
 * elsewhere only one object has the bytes, and verification checks them.
 */
export class DailyJudge implements FileJudge {
  readonly #log: { readonly day: string; readonly logId: string | undefined; readonly sealed: SealedLeaves }
  readonly #keys: KeyHistory
  /** One past the last number of each session. */
  #next: ReadonlyMap<string, number> = new Map()
  #walk: RangeWalk
  #end = 0

  /** @param log `logId` is undefined for a log without a journal, whose records name no log. */
  constructor(
    log: { readonly day: string; readonly logId: string | undefined; readonly sealed: SealedLeaves },
    keys: KeyHistory,
  ) {
    this.#log = log
    this.#keys = keys
    this.#walk = new RangeWalk(log.sealed.rangesOf(log.day), 0, Number.NaN)
  }

  get knownEnd(): number | undefined {
    const { day, logId, sealed } = this.#log
    return logId === undefined ? undefined : sealed.endOf(day)
  }

  isForeign(bytes: Buffer): boolean {
    return objectIn(bytes.subarray(0, bytes.indexOf(NEWLINE)))?.['log_id'] !== this.#log.logId
  }

  accepts({ bytes, start, isContested }: Piece): boolean {
    const { day, logId, sealed } = this.#log
    if (logId === undefined) return true
    const sealedEnd = sealed.endOf(day)
    const sequence = new Sequence(this.#next)
    const walk = this.#walk.copy()
    if (start !== this.#end) walk.line = Number.NaN
    let at = start
    for (const line of linesOfPiece(bytes)) {
      const range = walk.take(at)
      const leaf = isContested && range !== undefined ? sealed.leavesOf(range)?.[walk.line] : undefined
      const isChecked = at >= sealedEnd || (isContested && leaf === undefined)
      const { failure, record } = isChecked
        ? checkLine(line, { keys: this.#keys, day, logId }, undefined)
        : { failure: undefined, record: objectIn(line) }
      const isLater = sequence.take(record ?? {}, isContested && isChecked)
      if (leaf !== undefined && leafHash(line) !== leaf) return false
      if (isChecked && (failure !== undefined || !isLater)) return false
      at += line.length + 1
    }
    // A copy of later records in the place of others leaves numbers out.
    if (sequence.isMissing) return false
    this.#next = sequence.next
    this.#walk = walk
    this.#end = at
    return true
  }
}

/** The range of each line, and its number in the range, for lines that are taken in order. */
class RangeWalk {
  readonly #ranges: readonly PlacedRange[]
  #at: number
  /** Number of the line that was taken last, counted from 0; `NaN` after a gap. */
  line: number

  constructor(ranges: readonly PlacedRange[], at: number, line: number) {
    this.#ranges = ranges
    this.#at = at
    this.line = line
  }

  copy(): RangeWalk {
    return new RangeWalk(this.#ranges, this.#at, this.line)
  }

  /** The range of the line that begins at `offset`; undefined if it is not sealed. */
  take(offset: number): PlacedRange | undefined {
    let range = this.#ranges[this.#at]
    const before = range
    while (range !== undefined && range.end <= offset) range = this.#ranges[++this.#at]
    if (range?.start === offset) this.line = 0
    else if (range !== before) this.line = Number.NaN
    else this.line++
    return range
  }
}

/** The sequence numbers of the records of a piece. */
class Sequence {
  /** One past the last number, by session. */
  readonly next: Map<string, number>
  readonly #missing = new Set<string>()

  constructor(before: ReadonlyMap<string, number>) {
    this.next = new Map(before)
  }

  /** Whether numbers are left out that no record of the piece states to be lost. */
  get isMissing(): boolean {
    return this.#missing.size > 0
  }

  /**
   * Returns whether the record has a number that is larger than those of its session before it.
   *
   * @param isExact whether numbers that it leaves out are missing.
   */
  take(record: Record<string, unknown>, isExact: boolean): boolean {
    const place = recordPlace(record)
    if (place === undefined) return false
    const { session, number, lost } = place
    const next = this.next.get(session) ?? 0
    if (number < next) return false
    if (isExact && number - next > MAX_MISSING) this.#missing.add(session)
    else if (isExact) for (let n = next; n < number; n++) this.#missing.add(`${session}:${n}`)
    for (const [first, last] of lost) {
      for (let n = first; n <= Math.min(last, first + MAX_MISSING); n++)
        this.#missing.delete(`${session}:${n}`)
    }
    this.next.set(session, number + 1)
    return true
  }
}

/**
 * The sealed ranges of each day in the restored journal, and the leaves of their lines, if the restored hashes of the tree
 * lead to the newest checkpoint.
 */
export class SealedLeaves {
  readonly #dir: string
  readonly #head: Head | undefined
  /** The ranges of each day in the order of their bytes. */
  readonly #ranges = new Map<string, PlacedRange[]>()
  #isShown: boolean | undefined
  #last: { readonly range: PlacedRange; readonly leaves: readonly Digest[] } | undefined

  constructor(dir: string, head: Head | undefined) {
    this.#dir = dir
    this.#head = head
    for (const { line } of journalLines(nodeFileSystem, dir, 0, Number.POSITIVE_INFINITY)) {
      for (const range of sealedRanges(line)) {
        const known = this.#ranges.get(range.day) ?? []
        this.#ranges.set(range.day, known)
        known.push(range)
      }
    }
  }

  /** The end of the sealed bytes of the day. */
  endOf(day: string): number {
    return this.#ranges.get(day)?.at(-1)?.end ?? 0
  }

  rangesOf(day: string): readonly PlacedRange[] {
    return this.#ranges.get(day) ?? []
  }

  /** The leaves of a range; undefined if they are not known. */
  leavesOf(range: PlacedRange): readonly Digest[] | undefined {
    this.#isShown ??= this.#leadToHead()
    if (!this.#isShown) return undefined
    const { leaf, lines } = range
    if (this.#last?.range !== range) {
      this.#last = { range, leaves: [...storedLeaves(this.#dir, leaf, leaf + lines)].flat() }
    }
    return this.#last.leaves
  }

  #leadToHead(): boolean {
    if (this.#head === undefined) return false
    const tree = new LeafRange()
    for (const block of storedLeaves(this.#dir, 0, this.#head.size)) {
      for (const leaf of block) tree.append(leaf)
    }
    return tree.end === this.#head.size && tree.root() === this.#head.root
  }
}
