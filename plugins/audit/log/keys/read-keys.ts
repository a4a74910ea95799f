// The keys for verification: public key lines, each with the leaves for which it is trusted if it is not for all, or a
// signing key file whose public half is used.

import { join } from 'node:path'
import { readInput } from '../files/read-input.js'
import { AuditError, SignerKeyError, systemCode } from '../format/errors.js'
import { PUBLIC_KEYS_FILE } from '../format/paths.js'
import { leafBounds, type TrustedKey } from '../format/verifier.js'
import { LocalDevSigner } from './local-dev-signer.js'
import { verifierFromLine, verifierFromPublicKey } from './public-key.js'

/**
 * Reads `ed25519:<base64> [<first leaf> [<first leaf after>]]` lines or a signing key file.
 *
 * @throws as `readKeyLines`.
 */
export async function readKeys(path: string): Promise<TrustedKey[]> {
  const isPublic = await readKeyLines(path, (line) => line.startsWith('ed25519:'))
  if (isPublic.includes(true)) return readKeyLines(path, trustedKey)
  const keyRef = `file://${encodeURIComponent(path)}`
  return [verifierFromPublicKey(LocalDevSigner.fromKeyRef(keyRef, { onWarning: () => undefined }).publicKey)]
}

/**
 * The results of `parse` for each line; blank lines and `#` comments are ignored.
 *
 * @throws {AuditError} `read_failed`, or {SignerKeyError} naming the line that is not a key.
 */
export async function readKeyLines<T>(path: string, parse: (line: string) => T): Promise<T[]> {
  const text = (await readInput(path, 'keys')).toString()
  const keys = text.split('\n').flatMap((whole, index) => {
    const line = whole.trim()
    if (line === '' || line.startsWith('#')) return []
    try {
      return [parse(line)]
    } catch (error) {
      if (!(error instanceof SignerKeyError)) throw error
      throw new SignerKeyError(error.code, `${path}:${index + 1}: ${error.message}`, error)
    }
  })
  if (keys.length === 0) throw new SignerKeyError('key_malformed', `${path} holds no key`)
  return keys
}

/** @throws {SignerKeyError} */
function trustedKey(line: string): TrustedKey {
  const [key = '', ...bounds] = line.split(/\s+/)
  const verifier = verifierFromLine(key)
  const leaves = leafBounds(bounds)
  if (leaves !== undefined) return { ...verifier, leaves }
  throw new SignerKeyError(
    'key_malformed',
    'after a public key follow the first leaf that it may sign, and the first that it may not',
  )
}

/** The keys that the writer stored beside its log; none if the file does not exist. */
export async function keysOfLog(dir: string): Promise<TrustedKey[]> {
  try {
    return await readKeys(join(dir, PUBLIC_KEYS_FILE))
  } catch (error) {
    if (error instanceof AuditError && systemCode(error.cause) === 'ENOENT') return []
    throw error
  }
}
