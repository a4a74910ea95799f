// The signed heads that a log must match: its checkpoints, the `prev` lines of later days, a head kept elsewhere,
// and the statements of removal. Only heads signed by a known key count.

import { open, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { messageOf } from '@svc/core/json'
import { nodeFileSystem } from '../files/file-system.js'
import { AuditError, systemCode } from '../format/errors.js'
import { checkpointFile, REMOVALS_FILE } from '../format/paths.js'
import type { Verifier } from '../keys/public-key.js'
import { type Checkpoint, type Head, parseCheckpoint, parseRemoval } from '../seal/checkpoint.js'
import { judgeNote, type Note } from '../seal/note.js'
import { type NotePiece, notePieces } from '../seal/note-file.js'
import { readRemovals } from '../seal/removals.js'
import type { Findings } from './findings.js'

const FIRST_NOTE_BYTES = 8_192

/** A head and its source. */
export interface Claim extends Head {
  /** For messages. */
  readonly source: string
}

export interface KeptHeads {
  readonly claims: readonly Claim[]
  /** Of days that retention removed. */
  readonly removed: readonly Head[]
}

export type Keys = ReadonlyMap<string, Verifier>

/** The checkpoints of a day, each of a known key and larger than the one before; failures go to `findings`. */
export async function checkpointsOf(
  dir: string,
  day: string,
  keys: Keys,
  findings: Findings,
): Promise<Claim[]> {
  const file = checkpointFile(day)
  let bytes: Buffer
  try {
    bytes = await readFile(join(dir, file))
  } catch (error) {
    if (systemCode(error) === 'ENOENT') return []
    throw error
  }
  const claims: Claim[] = []
  let size = -1
  for (const piece of notePieces(bytes)) {
    const { line } = piece
    if (piece.torn) {
      findings.torn(file, line, bytes.length - piece.offset, 'checkpoint')
      continue
    }
    const checkpoint = piece.note === undefined ? undefined : parseCheckpoint(piece.note.text)
    if (piece.note === undefined || checkpoint?.day !== day) {
      findings.fail({ file, line, kind: 'bad_checkpoint', message: `not a checkpoint of ${day}` })
    } else if (isSignedByKnownKey(piece.note, checkpoint.origin, keys, { file, line, findings })) {
      if (checkpoint.size <= size) {
        const message = `${checkpoint.size} records do not extend the ${size} of the checkpoint before`
        findings.fail({ file, line, kind: 'bad_checkpoint', message })
      }
      size = Math.max(size, checkpoint.size)
      findings.checkpoints++
      claims.push({ ...head(checkpoint), source: `${file}:${line}` })
    }
  }
  return claims
}

/** The earlier heads that the first checkpoints of `days` name. */
export async function previousHeads(dir: string, days: readonly string[], keys: Keys): Promise<Claim[]> {
  const claims: Claim[] = []
  for (const day of days) {
    const [first] = notePieces(await beginningOf(join(dir, checkpointFile(day))))
    const checkpoint = first?.note === undefined ? undefined : parseCheckpoint(first.note.text)
    if (first?.note === undefined || checkpoint?.prev === undefined || checkpoint.day !== day) continue
    if (judgeNote(first.note, checkpoint.origin, keys.values()).kind !== 'verified') continue
    claims.push({ ...checkpoint.prev, source: `${checkpointFile(day)}:1` })
  }
  return claims
}

/** The largest head of each removed day, those in `kept` included; failures go to `findings`. */
export function removalsOf(
  dir: string,
  keys: Keys,
  kept: readonly Head[],
  findings: Findings,
): Map<string, Head> {
  const heads = new Map<string, Head>()
  const add = (each: Head) => {
    if (each.size >= (heads.get(each.day)?.size ?? -1)) heads.set(each.day, each)
  }
  kept.forEach(add)
  for (const { line, torn, note, removal } of readRemovals(nodeFileSystem, dir)) {
    if (torn) continue
    const place = { file: REMOVALS_FILE, line }
    if (note === undefined || removal === undefined) {
      findings.fail({ ...place, kind: 'bad_checkpoint', message: 'not a statement of what was removed' })
    } else if (isSignedByKnownKey(note, removal.origin, keys, { ...place, findings })) {
      removal.heads.forEach(add)
    }
  }
  return heads
}

/**
 * The heads in a file kept elsewhere: one checkpoint, or as many as an uploaded object holds, and statements of
 * removal.
 *
 * @throws {AuditError} `read_failed` where the file holds neither, or one that none of the keys signed.
 */
export async function headsKeptElsewhere(path: string, keys: Keys): Promise<KeptHeads> {
  let pieces: NotePiece[]
  try {
    pieces = notePieces(await readFile(path))
  } catch (cause) {
    throw new AuditError('read_failed', `cannot read the checkpoint at ${path}: ${messageOf(cause)}`, cause)
  }
  const claims: Claim[] = []
  const removed: Head[] = []
  for (const { note, line } of pieces) {
    if (note === undefined) continue
    const checkpoint = parseCheckpoint(note.text)
    const said = checkpoint ?? parseRemoval(note.text)
    if (said === undefined) continue
    const { kind } = judgeNote(note, said.origin, keys.values())
    if (kind !== 'verified') {
      throw new AuditError(
        'read_failed',
        `${path}:${line}: a checkpoint that none of the keys signed (${kind})`,
      )
    }
    if ('heads' in said) removed.push(...said.heads)
    else claims.push({ ...head(said), source: path })
  }
  if (claims.length + removed.length === 0) throw new AuditError('read_failed', `${path} holds no checkpoint`)
  return { claims, removed }
}

function head({ day, size, root }: Checkpoint): Head {
  return { day, size, root }
}

function isSignedByKnownKey(
  note: Note,
  origin: string,
  keys: Keys,
  { file, line, findings }: { file: string; line: number; findings: Findings },
): boolean {
  const { kind } = judgeNote(note, origin, keys.values())
  if (kind === 'verified') return true
  const message =
    kind === 'unknown_key' ? 'signed by no known key' : 'the signature of the checkpoint does not fit'
  findings.fail({ file, line, kind, message })
  return false
}

async function beginningOf(path: string): Promise<Uint8Array> {
  try {
    const handle = await open(path)
    try {
      const bytes = Buffer.alloc(FIRST_NOTE_BYTES)
      const { bytesRead } = await handle.read(bytes, 0, bytes.length, 0)
      return bytes.subarray(0, bytesRead)
    } finally {
      await handle.close()
    }
  } catch (error) {
    if (systemCode(error) === 'ENOENT') return new Uint8Array(0)
    throw error
  }
}
