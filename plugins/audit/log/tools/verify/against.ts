// Heads that were kept elsewhere, with which the log is compared.

import { readFile } from 'node:fs/promises'
import { messageOf } from '@svc/core/json'
import { AuditError } from '../../format/errors.js'
import { JOURNAL_FILE } from '../../format/paths.js'
import { parseCheckpoint } from '../../tree/checkpoint.js'
import { notePieces } from '../../tree/note-file.js'
import { signatureFailure } from './checkpoint-check.js'
import type { KeptCheckpoint } from './checkpoint-walk.js'
import type { Findings } from './findings.js'
import type { TrustedKeys } from './trusted-keys.js'

/**
 * The checkpoints in a file: one, or as many as an uploaded object holds.
 *
 * @throws {AuditError} `read_failed` where the file holds none.
 */
export async function headsKeptElsewhere(path: string): Promise<KeptCheckpoint[]> {
  let bytes: Buffer
  try {
    bytes = await readFile(path)
  } catch (cause) {
    throw new AuditError('read_failed', `cannot read the checkpoint at ${path}: ${messageOf(cause)}`, cause)
  }
  const end = bytes.indexOf('\n') + 1
  const heads = [...notePieces(bytes, bytes.toString('utf8', 0, end))].flatMap(({ note, line }) => {
    const head = note === undefined ? undefined : parseCheckpoint(note.text)
    return note === undefined || head === undefined ? [] : [{ ...head, note, line, file: path }]
  })
  if (heads.length === 0) throw new AuditError('read_failed', `${path} holds no checkpoint`)
  return heads
}

/** Those of this log that a trusted key signed; the others become findings. */
export function headsOf(
  heads: readonly KeptCheckpoint[],
  {
    origin,
    keys,
    findings,
  }: { readonly origin: string; readonly keys: TrustedKeys; readonly findings: Findings },
): KeptCheckpoint[] {
  return heads.filter((head) => {
    const place = { file: head.file, line: head.line }
    if (head.origin !== origin) {
      const message = `it is a checkpoint of ${head.origin}, this log is ${origin}`
      findings.fail({ file: JOURNAL_FILE, line: 0, kind: 'wrong_origin', message })
      return false
    }
    const kind = signatureFailure(head, keys)
    if (kind === undefined) return true
    findings.fail({ ...place, kind, message: 'the signature of the head is not that of a trusted key' })
    return false
  })
}
