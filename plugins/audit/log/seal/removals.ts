// Reads the signed statements of removal.

import { join } from 'node:path'
import { type FileSystem, readExisting } from '../files/file-system.js'
import { REMOVALS_FILE } from '../format/paths.js'
import { type Head, parseRemoval, type Removal } from './checkpoint.js'
import type { Note } from './note.js'
import { notePieces } from './note-file.js'

interface RemovalPiece {
  /** Number of its first line, counted from 1. */
  readonly line: number
  readonly torn: boolean
  readonly note: Note | undefined
  /** Undefined where the note is not a statement. */
  readonly removal: Removal | undefined
}

/** The statements of the log at `dir` in order, with unverified signatures; none where there is no file. */
export function readRemovals(port: FileSystem, dir: string): RemovalPiece[] {
  const pieces = readExisting(port, join(dir, REMOVALS_FILE), (fd) => {
    const bytes = Buffer.alloc(port.fstatSync(fd).size)
    const got = port.readSync(fd, bytes, 0, bytes.length, 0)
    return notePieces(bytes.subarray(0, got))
  })
  return (pieces ?? []).map(({ line, torn, note }) => {
    return { line, torn, note, removal: note === undefined ? undefined : parseRemoval(note.text) }
  })
}

/** The first day of the first statement; undefined while there is none. */
export function firstRemovedDay(port: FileSystem, dir: string): string | undefined {
  return readRemovals(port, dir).find(({ removal }) => removal !== undefined)?.removal?.heads[0]?.day
}

/** The removed heads, sorted by day. */
export function removedHeads(port: FileSystem, dir: string): Head[] {
  const heads = readRemovals(port, dir).flatMap(({ removal }) => removal?.heads ?? [])
  return heads.sort((a, b) => (a.day < b.day ? -1 : a.day > b.day ? 1 : a.size - b.size))
}
