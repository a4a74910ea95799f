// Splits a file of notes. No other line of a note is like its first one, the origin, so a damaged note does not affect
// the others, and an incomplete one at the end is recognised.

import { type Note, parseNote } from './note.js'

export interface NotePiece {
  /** Number of its first line, counted from 1. */
  readonly line: number
  /** Offset of its first byte. */
  readonly offset: number
  /** Undefined where the piece is not a note. */
  readonly note: Note | undefined
  readonly text: string
  /** True for a last piece without a complete signature line, which a writer that died leaves. */
  readonly torn: boolean
}

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })
const NEWLINE = 0x0a
const DASH = Buffer.from('\u2014 ')

/** The pieces of `bytes`, in order. Each note begins with `firstLine`: the origin and a newline. */
export function notePieces(bytes: Uint8Array, firstLine: string): NotePiece[] {
  const start = Buffer.from(firstLine)
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  const starts: number[] = buffer.length > 0 ? [0] : []
  for (let at = buffer.indexOf(start, 1); at >= 0; at = buffer.indexOf(start, at + 1)) {
    if (buffer[at - 1] === NEWLINE) starts.push(at)
  }
  // A torn note may end within its first line.
  const last = starts.at(-1) ?? 0
  const end = endOfNote(buffer.subarray(last))
  if (end !== undefined && last + end < buffer.length) starts.push(last + end)
  let line = 1
  return starts.map((offset, index) => {
    const end = starts[index + 1] ?? buffer.length
    const piece = buffer.subarray(offset, end)
    const text = decode(piece)
    const torn = end === buffer.length && endOfNote(piece) === undefined
    const found = {
      line,
      offset,
      text: text ?? '',
      note: text === undefined ? undefined : parseNote(text),
      torn,
    }
    for (let at = piece.indexOf(NEWLINE); at >= 0; at = piece.indexOf(NEWLINE, at + 1)) line++
    return found
  })
}

/** The offset after the complete signature lines of the note at the start; undefined where there are none. */
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

function decode(bytes: Uint8Array): string | undefined {
  try {
    return utf8.decode(bytes)
  } catch (error) {
    if (error instanceof TypeError) return undefined
    throw error
  }
}
