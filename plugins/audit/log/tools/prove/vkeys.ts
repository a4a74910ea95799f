// Verifier keys of c2sp.org/signed-note, which tools for transparency logs take.

import { AuditError, SignerKeyError } from '../../format/errors.js'
import { isOrigin } from '../../format/journal-line.js'
import type { NamedKey } from '../../format/note.js'
import { ED25519_TYPE } from '../../format/note.js'
import { verifierFromLine } from '../../keys/public-key.js'
import { readKeyLines } from '../../keys/read-keys.js'
import { formatVkey, parseWitnessKey } from '../../keys/signatures.js'
import { factsOfLog } from '../verify/journal-facts.js'

/**
 * The verifier keys of the log in `dir` that are trusted now.
 *
 * @throws {AuditError} `read_failed` if the log has no journal with a valid genesis.
 */
export async function vkeysOfLog(dir: string): Promise<string[]> {
  const facts = await factsOfLog(dir)
  if (facts?.genesis === undefined) {
    throw new AuditError('read_failed', `the log at ${dir} has no journal with a valid genesis`)
  }
  const { origin } = facts.genesis
  return facts.keys
    .spans()
    .flatMap(([line, , until]) =>
      until === null ? [formatVkey(origin, ED25519_TYPE, verifierFromLine(line).publicKey)] : [],
    )
}

/** The verifier key of a log's key. @throws {AuditError} `bad_config` for a name that no log can have. */
export function vkeyOf(origin: string, publicKey: Uint8Array): string {
  if (isOrigin(origin)) return formatVkey(origin, ED25519_TYPE, publicKey)
  throw new AuditError('bad_config', `${origin} is not the origin of a log, such as audit.example.com/prod`)
}

/** Reads the verifier keys of witnesses, each with its text. @throws as `readKeyLines`, and {SignerKeyError} if a key stands twice. */
export async function readWitnessKeys(path: string): Promise<(NamedKey & { readonly vkey: string })[]> {
  const keys = await readKeyLines(path, (vkey) => ({ ...parseWitnessKey(vkey), vkey }))
  if (new Set(keys.map(({ key }) => key.keyId)).size === keys.length) return keys
  throw new SignerKeyError('key_malformed', `${path} holds a key twice`)
}
