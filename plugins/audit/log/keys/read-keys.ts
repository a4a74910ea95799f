// The keys for verification: public key lines, or a signing key file whose public half is used.

import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { messageOf } from '@svc/core/json'
import { AuditError, SignerKeyError, systemCode } from '../format/errors.js'
import { PUBLIC_KEYS_FILE } from '../format/paths.js'
import { LocalDevSigner } from './local-dev-signer.js'
import { parsePublicKeyLine, type Verifier, verifierFromPublicKey } from './public-key.js'

/**
 * Reads `ed25519:<base64>` lines (blank lines and `#` comments are ignored) or a signing key file.
 *
 * @throws {AuditError} `read_failed`, or {SignerKeyError} naming the line that is not a key.
 */
export async function readKeys(path: string): Promise<Verifier[]> {
  let text: string
  try {
    text = await readFile(path, 'utf8')
  } catch (cause) {
    throw new AuditError('read_failed', `cannot read the keys at ${path}: ${messageOf(cause)}`, cause)
  }
  const lines = text.split('\n').map((line) => line.trim())
  const meant = lines.filter((line) => line !== '' && !line.startsWith('#'))
  if (meant.length === 0) throw new SignerKeyError('key_malformed', `${path} holds no key`)
  if (!meant.some((line) => line.startsWith('ed25519:'))) {
    const signer = LocalDevSigner.fromKeyRef(`file://${encodeURIComponent(path)}`, {
      onWarning: () => undefined,
    })
    return [verifierFromPublicKey(signer.publicKey)]
  }
  return lines.flatMap((line, index) => {
    if (line === '' || line.startsWith('#')) return []
    try {
      return [verifierFromPublicKey(parsePublicKeyLine(line))]
    } catch (error) {
      if (!(error instanceof SignerKeyError)) throw error
      throw new SignerKeyError(error.code, `${path}:${index + 1}: ${error.message}`, error)
    }
  })
}

/** The keys that the writer stored beside its log; none where there is no such file. */
export async function keysOfLog(dir: string): Promise<Verifier[]> {
  try {
    return await readKeys(join(dir, PUBLIC_KEYS_FILE))
  } catch (error) {
    if (error instanceof AuditError && systemCode(error.cause) === 'ENOENT') return []
    throw error
  }
}
