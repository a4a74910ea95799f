// The checkpoints of a log in the order of their sizes. A clock that was set back puts later ones into an earlier day's
// file, so files are merged by size. Only files that are in use are in memory.

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { checkpointFile } from '../format/paths.js'
import type { Note } from '../seal/note.js'
import { notePieces } from '../seal/note-file.js'
import { type Head, parseCheckpoint } from '../tree/checkpoint.js'
import type { Findings } from './findings.js'

export interface KeptCheckpoint extends Head {
  readonly file: string
  /** Counted from 1. */
  readonly line: number
  readonly note: Note
}

const SIZE_DIGITS = 16

interface OpenFile {
  readonly notes: readonly KeptCheckpoint[]
  next: number
}

export class CheckpointWalk {
  readonly #dir: string
  readonly #origin: string
  readonly #findings: Findings
  readonly #sizes: ReadonlyMap<string, number>
  /** Not opened yet, by their smallest size, descending. */
  readonly #waiting: { readonly day: string; readonly first: number }[]
  #open: OpenFile[] = []

  /** @param sizes bytes to read of the file of each day. */
  constructor(dir: string, sizes: ReadonlyMap<string, number>, origin: string, findings: Findings) {
    this.#dir = dir
    this.#origin = origin
    this.#findings = findings
    this.#sizes = sizes
    this.#waiting = [...sizes.keys()]
      .map((day) => ({ day, first: this.#smallestSize(day) }))
      .sort((a, b) => b.first - a.first || (a.day < b.day ? 1 : -1))
  }

  /** The checkpoints whose size is at most `size`, in order, each once. */
  *upTo(size: number): Generator<KeptCheckpoint, void, void> {
    for (;;) {
      for (
        let next = this.#waiting.at(-1);
        next !== undefined && next.first <= size;
        next = this.#waiting.at(-1)
      ) {
        this.#waiting.pop()
        this.#open.push({ notes: this.#read(next.day), next: 0 })
      }
      let least: OpenFile | undefined
      for (const file of this.#open) {
        const at = file.notes[file.next]?.size ?? Number.POSITIVE_INFINITY
        if (at < (least?.notes[least.next]?.size ?? Number.POSITIVE_INFINITY)) least = file
      }
      const note = least?.notes[least.next]
      if (least === undefined || note === undefined || note.size > size) return
      least.next++
      if (least.next === least.notes.length) this.#open = this.#open.filter((file) => file !== least)
      yield note
    }
  }

  /** The smallest size in the file, read without parsing the checkpoints. */
  #smallestSize(day: string): number {
    const bytes = this.#bytes(day)
    const origin = Buffer.from(`${this.#origin}\n`)
    let smallest = Number.POSITIVE_INFINITY
    for (let at = bytes.indexOf(origin); at >= 0; at = bytes.indexOf(origin, at + origin.length)) {
      const start = at + origin.length
      smallest = Math.min(
        smallest,
        Number.parseInt(bytes.toString('latin1', start, start + SIZE_DIGITS), 10) || 0,
      )
    }
    // A file without a checkpoint is read, and its failures reported, at once.
    return Number.isFinite(smallest) ? smallest : 0
  }

  #bytes(day: string): Buffer {
    return readFileSync(join(this.#dir, checkpointFile(day))).subarray(0, this.#sizes.get(day))
  }

  #read(day: string): KeptCheckpoint[] {
    const file = checkpointFile(day)
    const bytes = this.#bytes(day)
    const notes: KeptCheckpoint[] = []
    for (const { line, offset, note, torn } of notePieces(bytes, `${this.#origin}\n`)) {
      const head = note === undefined ? undefined : parseCheckpoint(note.text)
      const fail = (message: string) => this.#findings.fail({ file, line, kind: 'bad_checkpoint', message })
      if (torn) this.#findings.torn(file, line, bytes.length - offset, 'checkpoint')
      else if (note === undefined || head === undefined) fail('not a checkpoint')
      else if (head.origin !== this.#origin) fail(`a checkpoint of ${head.origin}`)
      else notes.push({ ...head, file, line, note })
    }
    // Of two writers, one may write its checkpoint after the other has written a larger one.
    return notes.sort((a, b) => a.size - b.size)
  }
}
