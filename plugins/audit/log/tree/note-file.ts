// Splits a file of notes. No other line of a note is like its first one, the origin, so a damaged note does not affect
// the others, and an incomplete one at the end is recognised.

import { type Note, parseNote } from '../format/note.js'
import { lineText } from '../format/stored-record.js'

export interface NotePiece {
  /** Number of its first line, counted from 1. */
  readonly line: number
  /** Offset of its first byte. */
  readonly offset: number
  /** Undefined if the piece is not a note. */
  readonly note: Note | undefined
  readonly text: string
  /** True for a last piece without a complete signature line, which a writer that died leaves. */
  readonly torn: boolean
}

const NEWLINE = 0x0a
const DASH = Buffer.from('\u2014 ')

/** The pieces of `bytes`, in order. Each note begins with `firstLine`: the origin and a newline. */
export function* notePieces(bytes: Uint8Array, firstLine: string): Generator<NotePiece, void, void> {
  const start = Buffer.from(firstLine)
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  let line = 1
  let isRest = false
  for (let offset = 0; offset < buffer.length; ) {
    const next: number = isRest ? -1 : startOfNote(buffer, start, offset + 1)
    // A torn note may end within its first line.
    const own = next < 0 && !isRest ? endOfNote(buffer.subarray(offset)) : undefined
    isRest = next < 0
    const end = next < 0 ? offset + (own ?? buffer.length - offset) : next
    const piece = buffer.subarray(offset, end)
    const text = lineText(piece)
    const note = text === undefined ? undefined : parseNote(text)
    const torn = end === buffer.length && endOfNote(piece) === undefined
    yield { line, offset, text: text ?? '', note, torn }
    for (let at = piece.indexOf(NEWLINE); at >= 0; at = piece.indexOf(NEWLINE, at + 1)) line++
    offset = end
  }
}

function startOfNote(buffer: Buffer, start: Buffer, from: number): number {
  let at = buffer.indexOf(start, from)
  while (at > 0 && buffer[at - 1] !== NEWLINE) at = buffer.indexOf(start, at + 1)
  return at
}

/** The offset after the complete signature lines of the note at the start; undefined if there are none. */
function endOfNote(bytes: Buffer): number | undefined {
  const signatures = bytes.indexOf('\n\n') + 2
  if (signatures === 1) return undefined
  let end = signatures
  while (bytes.indexOf(DASH, end) === end) {
    const newline = bytes.indexOf(NEWLINE, end)
    if (newline < 0) break
    end = newline + 1
  }
  return end === signatures ? undefined : end
}
