// Verifier keys of c2sp.org/signed-note, which tools for transparency logs take.

import { statSync } from 'node:fs'
import { join } from 'node:path'
import { toBase64 } from '@svc/core/json'
import { AuditError } from '../format/errors.js'
import { JOURNAL_FILE } from '../format/paths.js'
import { parsePublicKeyLine } from '../keys/public-key.js'
import { noteKeyId } from '../seal/note.js'
import { journalFacts } from '../verify/journal-facts.js'

const ED25519_TYPE = 0x01

/** `<origin>+<key hash>+<base64 of the type and the key>`. */
export function vkeyOf(origin: string, publicKey: Uint8Array): string {
  const hash = Buffer.from(noteKeyId(origin, publicKey)).toString('hex')
  return `${origin}+${hash}+${toBase64(Buffer.concat([Buffer.of(ED25519_TYPE), publicKey]))}`
}

/**
 * The verifier keys of the log in `dir` that are trusted now.
 *
 * @throws {AuditError} `read_failed` where the log has no journal with a valid genesis.
 */
export async function vkeysOfLog(dir: string): Promise<string[]> {
  const path = join(dir, JOURNAL_FILE)
  const size = statSync(path, { throwIfNoEntry: false })?.size ?? 0
  const facts = size === 0 ? undefined : await journalFacts(path, size, [])
  if (facts?.genesis === undefined) {
    throw new AuditError('read_failed', `the log at ${dir} has no journal with a valid genesis`)
  }
  const { origin } = facts.genesis
  return facts.spans.flatMap(([line, , until]) =>
    until === null ? [vkeyOf(origin, parsePublicKeyLine(line))] : [],
  )
}
