// The counts of each day of a log, and its heads. The journal is read once, and then only what was appended to it.
import { join } from 'node:path'
import { dailyFiles } from '../../files/daily-files.js'
import { nodeFileSystem, sizeOf } from '../../files/file-system.js'
import { timeOf } from '../../format/checkpoint.js'
import { digestToBase64 } from '../../format/digest.js'
import type { JournalLine, LineOf } from '../../format/journal-line.js'
import { consistencyRanges } from '../../format/merkle-proof.js'
import { isVerified, type Note } from '../../format/note.js'
import { dailyLog } from '../../format/paths.js'
import { newestCheckpoint } from '../../tree/checkpoint-file.js'
import { journalBackwards, journalLines, journalSize, readGenesis } from '../../tree/journal-file.js'
import { KeyHistory } from '../../tree/key-history.js'
import { rootsOf } from '../../tree/tree-store.js'
import { Prover } from '../prove/prove.js'
import { recordAt } from './browse-records.js'

// The proof of one record for a reader who checks it: nothing is judged here, so that a changed record is seen as one.

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
function statedKeys(dir: string): KeyHistory {
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

function keyLines(keys: KeyHistory): string[] {
  return keys.spans().map(([key, from, until]) => `${key} ${from}${until === null ? '' : ` ${until}`}`)
}

/**
 * `sealed`: all of it; `open`: its end is not sealed yet; `removed`: by retention, as the journal states; `gap`: sealed records
 * are missing; `empty`: there were no calls.
 */
export type DayState = 'sealed' | 'open' | 'removed' | 'gap' | 'empty'

export interface LogDay {
  readonly day: string
  readonly state: DayState
  /** Sealed ones. */
  readonly records: number
  readonly bytes: number
  readonly removed_at?: string
}

export interface LogHead {
  readonly size: number
  /** In base64. */
  readonly root: string
  /** The signed note. */
  readonly note: string
}

export interface LogSummary {
  /** Null for a log without a journal. */
  readonly origin: string | null
  readonly days: readonly LogDay[]
  readonly head: LogHead | null
  /** The newest head that witnesses have cosigned; their signatures are not checked here. */
  readonly cosigned: (LogHead & { readonly witnesses: readonly { name: string; at: string }[] }) | null
  /** `at` of the last line of the journal. */
  readonly sealed_at: string | null
  /** Public key lines with the leaves that each may sign. */
  readonly keys: readonly string[]
}

interface DayFacts {
  records: number
  end: number
  removedAt?: string
  hasFault: boolean
}

const MS_PER_DAY = 86_400_000
const MAX_DAYS = 400

export class LogDays {
  readonly #dir: string
  readonly #days = new Map<string, DayFacts>()
  #inode = -1
  #read = 0
  #sealedAt: string | null = null

  constructor(dir: string) {
    this.#dir = dir
  }

  /** @throws {AuditError} `read_failed` */
  async summary(): Promise<LogSummary> {
    const files = new Set((await dailyFiles(this.#dir)).map(({ day }) => day))
    this.#readOn()
    const keys = statedKeys(this.#dir)
    const origin = readGenesis(nodeFileSystem, this.#dir)?.origin ?? null
    const isSigned = (note: Note, { size }: { readonly size: number }) =>
      isVerified(note, origin ?? '', keys.allAt(size - 1))
    const newest = this.#newest(origin, isSigned)
    const cosigned = this.#newest(
      origin,
      (note, head) => note.signatures.some(isCosignature(origin)) && isSigned(note, head),
    )
    return {
      origin,
      days: this.#listed(files),
      head: newest === undefined ? null : headOf(newest),
      cosigned:
        cosigned === undefined
          ? null
          : { ...headOf(cosigned), witnesses: witnessesOf(cosigned.note, origin) },
      sealed_at: this.#sealedAt,
      keys: keyLines(keys),
    }
  }

  #newest(origin: string | null, counts: NonNullable<Parameters<typeof newestCheckpoint>[3]>) {
    return origin === null ? undefined : newestCheckpoint(nodeFileSystem, this.#dir, origin, counts)
  }

  #readOn(): void {
    const { inode = -1, end = 0 } = journalSize(nodeFileSystem, this.#dir) ?? {}
    if (inode !== this.#inode || end < this.#read) {
      this.#days.clear()
      this.#read = 0
      this.#sealedAt = null
    }
    this.#inode = inode
    for (const { line, end: after } of journalLines(nodeFileSystem, this.#dir, this.#read, end)) {
      this.#read = after
      if (line !== undefined) this.#take(line)
    }
  }

  #take(line: JournalLine): void {
    this.#sealedAt = line.at
    if (line.kind === 'seal') {
      for (const [day, , end, lines] of line.ranges) {
        const facts = this.#of(day)
        facts.records += lines
        facts.end = end
      }
    }
    if (line.kind === 'fault') Object.assign(this.#of(line.day), { hasFault: true, end: line.resume })
    if (line.kind === 'remove') this.#of(line.day).removedAt = line.at
  }

  #of(day: string): DayFacts {
    const known = this.#days.get(day) ?? { records: 0, end: 0, hasFault: false }
    this.#days.set(day, known)
    return known
  }

  /** The newest days, one after the other. */
  #listed(files: ReadonlySet<string>): LogDay[] {
    const known = [...new Set([...files, ...this.#days.keys()])].sort()
    const [first, last] = [known[0], known.at(-1)]
    if (first === undefined || last === undefined) return []
    const days: LogDay[] = []
    for (let ms = Date.parse(`${last}T00:00Z`); days.length < MAX_DAYS; ms -= MS_PER_DAY) {
      const day = new Date(ms).toISOString().slice(0, 10)
      days.push(this.#day(day))
      if (day <= first) break
    }
    return days.reverse()
  }

  #day(day: string): LogDay {
    const { records, end, removedAt, hasFault } = this.#days.get(day) ?? {
      records: 0,
      end: 0,
      hasFault: false,
    }
    const bytes = sizeOf(nodeFileSystem, join(this.#dir, dailyLog(day)))
    const of = { day, records, bytes: bytes ?? 0 }
    if (removedAt !== undefined) return { ...of, state: 'removed', removed_at: removedAt }
    if (hasFault || (bytes ?? 0) < end) return { ...of, state: 'gap' }
    if (bytes === undefined) return { ...of, state: 'empty' }
    return { ...of, state: bytes > end ? 'open' : 'sealed' }
  }
}

type Stored = NonNullable<ReturnType<typeof newestCheckpoint>>

function headOf({ head: { size, root }, signed }: Stored): LogHead {
  return { size, root: digestToBase64(root), note: signed }
}

function isCosignature(origin: string | null) {
  return (signature: Note['signatures'][number]) =>
    signature.name !== origin && timeOf(signature) !== undefined
}

function witnessesOf(note: Note, origin: string | null): { name: string; at: string }[] {
  return note.signatures.filter(isCosignature(origin)).flatMap((signature) => {
    const at = new Date((timeOf(signature) ?? Number.NaN) * 1000)
    return Number.isNaN(at.getTime()) ? [] : [{ name: signature.name, at: at.toISOString() }]
  })
}
