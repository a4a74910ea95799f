// A checkpoint that was kept, beside the log or elsewhere, and its place in the file.

import { readInput } from '../../files/read-input.js'
import { type Head, parseCheckpoint } from '../../format/checkpoint.js'
import { AuditError } from '../../format/errors.js'
import { judgeNote, type Note } from '../../format/note.js'
import { notePieces } from '../../tree/checkpoint-file.js'
import type { KeyHistory } from '../../tree/key-history.js'
import type { FailureKind } from './report.js'

export interface SavedCheckpoint extends Head {
  readonly file: string
  /** Counted from 1. */
  readonly line: number
  readonly note: Note
}

/** Why the checkpoint's signature does not count; undefined if it does. */
export function signatureFailure(
  { note, origin, size }: Omit<SavedCheckpoint, 'file' | 'line'>,
  keys: KeyHistory,
): FailureKind | undefined {
  const { kind } = judgeNote(note, origin, keys.allAt(size - 1))
  if (kind === 'verified') return undefined
  if (kind === 'bad_signature') return kind
  const byAny = judgeNote(note, origin, keys.allAt(undefined)).kind
  return byAny === 'verified' ? 'revoked_key' : byAny
}

/**
 * The checkpoints in a file that was kept elsewhere: one, or as many as an uploaded object holds.
 *
 * @throws {AuditError} `read_failed` if the file holds none.
 */
export async function headsKeptElsewhere(path: string): Promise<SavedCheckpoint[]> {
  const bytes = await readInput(path, 'checkpoint')
  const end = bytes.indexOf('\n') + 1
  const heads = [...notePieces(bytes, bytes.toString('utf8', 0, end))].flatMap(({ note, line }) => {
    const head = note && parseCheckpoint(note.text)
    return note === undefined || head === undefined ? [] : [{ ...head, note, line, file: path }]
  })
  if (heads.length === 0) throw new AuditError('read_failed', `${path} holds no checkpoint`)
  return heads
}
