// Heads that were kept elsewhere, with which the log is compared.

import { readInput } from '../../files/read-input.js'
import { AuditError } from '../../format/errors.js'
import { JOURNAL_FILE } from '../../format/paths.js'
import { parseCheckpoint } from '../../tree/checkpoint.js'
import { notePieces } from '../../tree/note-file.js'
import { signatureFailure } from './checkpoint-check.js'
import type { KeptCheckpoint } from './checkpoint-walk.js'
import type { Context } from './context.js'

/**
 * The checkpoints in a file: one, or as many as an uploaded object holds.
 *
 * @throws {AuditError} `read_failed` if the file holds none.
 */
export async function headsKeptElsewhere(path: string): Promise<KeptCheckpoint[]> {
  const bytes = await readInput(path, 'checkpoint')
  const end = bytes.indexOf('\n') + 1
  const heads = [...notePieces(bytes, bytes.toString('utf8', 0, end))].flatMap(({ note, line }) => {
    const head = note === undefined ? undefined : parseCheckpoint(note.text)
    return note === undefined || head === undefined ? [] : [{ ...head, note, line, file: path }]
  })
  if (heads.length === 0) throw new AuditError('read_failed', `${path} holds no checkpoint`)
  return heads
}

/** The heads of the log `origin` that a trusted key signed; others become findings. */
export function headsOf(
  heads: readonly KeptCheckpoint[],
  origin: string,
  { keys, findings }: Context,
): KeptCheckpoint[] {
  return heads.filter((head) => {
    const isOwn = head.origin === origin
    const kind = isOwn ? signatureFailure(head, keys) : undefined
    const message = `it is a checkpoint of ${head.origin}, this log is ${origin}`
    if (!isOwn) findings.fail(JOURNAL_FILE, 0, 'wrong_origin', message)
    if (kind !== undefined) {
      findings.fail(head.file, head.line, kind, 'the signature of the head is not that of a trusted key')
    }
    return isOwn && kind === undefined
  })
}
