// The logs that a witness knows: a file of verifier keys, one a line. It is read for each request, so an operator adds
// and removes keys without a restart.

import { readFile } from 'node:fs/promises'
import { messageOf } from '@svc/core/json'
import { AuditError, SignerKeyError } from '../../format/errors.js'
import { ED25519_TYPE } from '../../format/note.js'
import type { NoteVerifier } from '../../format/verifier.js'
import { parseVkey } from '../../format/vkey.js'
import { verifierFromPublicKey } from '../../keys/public-key.js'

export interface TrustedLog {
  /** Name of the log's keys in signature lines. */
  readonly name: string
  readonly keys: NoteVerifier[]
}

/**
 * Reads `<verifier key>` lines; if the origin differs from the key's name, it follows after a space. Blank lines and
 * `#` comments are ignored.
 *
 * @returns the logs by origin.
 * @throws {AuditError} `read_failed`, or {SignerKeyError} naming the line that is not a key.
 */
export async function readTrustedLogs(path: string): Promise<Map<string, TrustedLog>> {
  let text: string
  try {
    text = await readFile(path, 'utf8')
  } catch (cause) {
    throw new AuditError('read_failed', `cannot read the logs at ${path}: ${messageOf(cause)}`, cause)
  }
  const logs = new Map<string, TrustedLog>()
  for (const [index, line] of text.split('\n').entries()) {
    const entry = line.trim()
    if (entry === '' || entry.startsWith('#')) continue
    const [vkey = '', ...rest] = entry.split(' ')
    const parsed = parseVkey(vkey, ED25519_TYPE, verifierFromPublicKey)
    if (parsed === undefined) {
      throw new SignerKeyError(
        'key_malformed',
        `${path}:${index + 1}: not a verifier key as npx svc-sdk audit vkey prints it`,
      )
    }
    const origin = rest.length === 0 ? parsed.name : rest.join(' ')
    const known = logs.get(origin)
    if (known === undefined) logs.set(origin, { name: parsed.name, keys: [parsed.key] })
    else if (known.name === parsed.name) known.keys.push(parsed.key)
    else {
      throw new SignerKeyError('key_malformed', `${path}:${index + 1}: ${origin} has keys of another name`)
    }
  }
  return logs
}
