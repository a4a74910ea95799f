// The checkpoints of a log in the order of their sizes, and heads that were kept elsewhere. A clock that was set back puts
// later checkpoints into an earlier day's file, so files are merged by size. Only files that are in use are in memory.

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseCheckpoint } from '../../format/checkpoint.js'
import { checkpointFile, JOURNAL_FILE } from '../../format/paths.js'
import { notePieces } from '../../tree/checkpoint-file.js'
import type { Context } from './inventory.js'
import { type SavedCheckpoint, signatureFailure } from './kept-checkpoint.js'

const SIZE_DIGITS = 16

/** The notes of a file from the smallest size on, and whether they ascend. */
interface WaitingFile {
  readonly day: string
  readonly least: number
  readonly largest: number
  readonly isOrdered: boolean
}

interface OpenFile {
  readonly notes: Iterator<SavedCheckpoint, void, void>
  next: SavedCheckpoint
}

export class CheckpointWalk {
  readonly #context: Context
  readonly #origin: string
  readonly #after: number
  /** The files that are not read yet by their smallest size, descending. */
  readonly #waiting: WaitingFile[]
  #open: OpenFile[] = []

  /** The checkpoints that are larger than the head at which verification begins. */
  constructor(context: Context, origin: string) {
    this.#context = context
    this.#origin = origin
    this.#after = context.beginning?.head.size ?? -1
    this.#waiting = [...context.checkpoints.keys()]
      .map((day) => this.#survey(day))
      .filter(({ largest }) => largest > this.#after)
      .sort((a, b) => b.least - a.least || (a.day < b.day ? 1 : -1))
  }

  /** The checkpoints whose size is at most `size`, in order, each once. */
  *upTo(size: number): Generator<SavedCheckpoint, void, void> {
    for (;;) {
      for (let file = this.#waiting.at(-1); file && file.least <= size; file = this.#waiting.at(-1)) {
        this.#waiting.pop()
        const parsed = this.#parse(file.day)
        // One of two writers may write its checkpoint after the other has written a larger one.
        const notes = file.isOrdered ? parsed : [...parsed].sort((a, b) => a.size - b.size).values()
        const { value } = notes.next()
        if (value) this.#open.push({ notes, next: value })
      }
      const [first, ...others] = this.#open
      if (first === undefined) return
      const least = others.reduce((one, other) => (other.next.size < one.next.size ? other : one), first)
      const { next } = least
      if (next.size > size) return
      const { value } = least.notes.next()
      if (value) least.next = value
      else this.#open = this.#open.filter((file) => file !== least)
      yield next
    }
  }

  /** Reads the sizes without parsing the checkpoints. */
  #survey(day: string): WaitingFile {
    const bytes = this.#bytes(day)
    const origin = Buffer.from(`${this.#origin}\n`)
    let [least, largest, last, isOrdered] = [Number.POSITIVE_INFINITY, 0, 0, true]
    for (let at = bytes.indexOf(origin); at >= 0; at = bytes.indexOf(origin, at + origin.length)) {
      const start = at + origin.length
      const size = Number.parseInt(bytes.toString('latin1', start, start + SIZE_DIGITS), 10) || 0
      isOrdered &&= size >= last
      last = size
      least = Math.min(least, size)
      largest = Math.max(largest, size)
    }
    // A file without a checkpoint is read, and its failures reported, at once.
    return { day, least: Number.isFinite(least) ? least : 0, largest, isOrdered }
  }

  #bytes(day: string): Buffer {
    const { dir, checkpoints } = this.#context
    return readFileSync(join(dir, checkpointFile(day))).subarray(0, checkpoints.get(day))
  }

  *#parse(day: string): Generator<SavedCheckpoint, void, void> {
    const { findings } = this.#context
    const file = checkpointFile(day)
    const bytes = this.#bytes(day)
    for (const { note, torn, line, offset } of notePieces(bytes, `${this.#origin}\n`)) {
      const head = note && parseCheckpoint(note.text)
      const fail = (message: string) => findings.fail(file, line, 'bad_checkpoint', message)
      if (torn) findings.torn(file, line, bytes.length - offset, 'checkpoint')
      else if (note === undefined || head === undefined) fail('not a checkpoint')
      else if (head.origin !== this.#origin) fail(`a checkpoint of ${head.origin}`)
      else if (head.size > this.#after) yield { ...head, file, line, note }
    }
  }
}

/** The heads of the log `origin` that a trusted key signed; others become findings. */
export function headsOf(
  heads: readonly SavedCheckpoint[],
  origin: string,
  { keys, findings }: Context,
): SavedCheckpoint[] {
  return heads.filter((head) => {
    if (head.origin !== origin) {
      const message = `it is a checkpoint of ${head.origin}, this log is ${origin}`
      findings.fail(JOURNAL_FILE, 0, 'wrong_origin', message)
      return false
    }
    const kind = signatureFailure(head, keys)
    if (kind === undefined) return true
    findings.fail(head.file, head.line, kind, 'the signature of the head is not that of a trusted key')
    return false
  })
}
