// Finds the newest checkpoint from the end of its file, so the size of the file does not matter.

import type { FileSystem } from '../files/file-system.js'
import { type Checkpoint, parseCheckpoint } from './checkpoint.js'
import type { Note } from './note.js'
import { noteTail } from './note-tail.js'

export interface NewestCheckpoint {
  /** The last well-formed one; undefined where there is none. */
  readonly checkpoint: Checkpoint | undefined
  readonly note: Note | undefined
  /** The text of the note; empty where there is none. */
  readonly signed: string
  /** True when other bytes than a torn checkpoint follow it. */
  readonly damaged: boolean
}

/** Undefined where there is no such file. */
export function newestCheckpoint(port: FileSystem, path: string): NewestCheckpoint | undefined {
  const tail = noteTail(port, path)
  if (tail === undefined) return undefined
  const { pieces, end } = tail
  let damaged = pieces.length === 0 && end > 0
  for (const { note, text } of pieces.toReversed()) {
    const checkpoint = note === undefined ? undefined : parseCheckpoint(note.text)
    if (checkpoint !== undefined) return { checkpoint, note, signed: text, damaged }
    damaged = true
  }
  return { checkpoint: undefined, note: undefined, signed: '', damaged }
}
