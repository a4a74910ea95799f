// The checkpoints of a log in the order of their sizes. A clock that was set back puts later ones into an earlier day's
// file, so files are merged by size. Only files that are in use are in memory, and of an ordered one only its bytes.

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { checkpointFile } from '../../format/paths.js'
import { type Head, parseCheckpoint } from '../../tree/checkpoint.js'
import type { Note } from '../../tree/note.js'
import { notePieces } from '../../tree/note-file.js'
import type { Context } from './context.js'

export interface KeptCheckpoint extends Head {
  readonly file: string
  /** Counted from 1. */
  readonly line: number
  readonly note: Note
}

const SIZE_DIGITS = 16

/** A file with notes that are not read yet. */
interface WaitingFile {
  readonly day: string
  /** The smallest size. */
  readonly first: number
  readonly isOrdered: boolean
}

interface OpenFile {
  readonly notes: Iterator<KeptCheckpoint, void, void>
  next: KeptCheckpoint | undefined
}

export class CheckpointWalk {
  readonly #context: Context
  readonly #origin: string
  /** The waiting files by their smallest size, descending. */
  readonly #waiting: WaitingFile[]
  #open: OpenFile[] = []

  constructor(context: Context, origin: string) {
    this.#context = context
    this.#origin = origin
    this.#waiting = [...context.checkpoints.keys()]
      .map((day) => this.#survey(day))
      .sort((a, b) => b.first - a.first || (a.day < b.day ? 1 : -1))
  }

  /** The checkpoints whose size is at most `size`, in order, each once. */
  *upTo(size: number): Generator<KeptCheckpoint, void, void> {
    for (;;) {
      for (let file = this.#waiting.at(-1); file && file.first <= size; file = this.#waiting.at(-1)) {
        this.#waiting.pop()
        this.#openFile(file)
      }
      let least: OpenFile | undefined
      for (const file of this.#open) if (sizeOf(file) < sizeOf(least)) least = file
      const note = least?.next
      if (least === undefined || note === undefined || note.size > size) return
      least.next = least.notes.next().value ?? undefined
      if (least.next === undefined) this.#open = this.#open.filter((file) => file !== least)
      yield note
    }
  }

  #openFile(file: WaitingFile): void {
    const parsed = this.#parse(file.day)
    // Of two writers, one may write its checkpoint after the other has written a larger one.
    const notes = file.isOrdered ? parsed : [...parsed].sort((a, b) => a.size - b.size).values()
    this.#open.push({ notes, next: notes.next().value ?? undefined })
  }

  /** Reads the sizes without parsing the checkpoints. */
  #survey(day: string): WaitingFile {
    const bytes = this.#bytes(day)
    const origin = Buffer.from(`${this.#origin}\n`)
    let first = Number.POSITIVE_INFINITY
    let last = 0
    let isOrdered = true
    for (let at = bytes.indexOf(origin); at >= 0; at = bytes.indexOf(origin, at + origin.length)) {
      const start = at + origin.length
      const size = Number.parseInt(bytes.toString('latin1', start, start + SIZE_DIGITS), 10) || 0
      isOrdered &&= size >= last
      last = size
      first = Math.min(first, size)
    }
    // A file without a checkpoint is read, and its failures reported, at once.
    return { day, first: Number.isFinite(first) ? first : 0, isOrdered }
  }

  #bytes(day: string): Buffer {
    const { dir, checkpoints } = this.#context
    return readFileSync(join(dir, checkpointFile(day))).subarray(0, checkpoints.get(day))
  }

  *#parse(day: string): Generator<KeptCheckpoint, void, void> {
    const { findings } = this.#context
    const file = checkpointFile(day)
    const bytes = this.#bytes(day)
    for (const { note, torn, line, offset } of notePieces(bytes, `${this.#origin}\n`)) {
      const head = note === undefined ? undefined : parseCheckpoint(note.text)
      const fail = (message: string) => findings.fail(file, line, 'bad_checkpoint', message)
      if (torn) findings.torn(file, line, bytes.length - offset, 'checkpoint')
      else if (note === undefined || head === undefined) fail('not a checkpoint')
      else if (head.origin !== this.#origin) fail(`a checkpoint of ${head.origin}`)
      else yield { ...head, file, line, note }
    }
  }
}

function sizeOf(file: OpenFile | undefined): number {
  return file?.next?.size ?? Number.POSITIVE_INFINITY
}
