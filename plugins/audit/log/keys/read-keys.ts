// The keys for verification, in every form that commands print: public key lines, each with the leaves for which it is
// trusted if it is not for all, verifier keys, PEM and JWK; or a signing key file, whose public half is used.

import { createPublicKey, type KeyObject } from 'node:crypto'
import { join } from 'node:path'
import { parseBase64 } from '@svc/core/json'
import { readInput } from '../files/read-input.js'
import { AuditError, SignerKeyError, systemCode } from '../format/errors.js'
import { PUBLIC_KEY_BYTES } from '../format/key-sizes.js'
import { ED25519_TYPE, parseVkey } from '../format/note.js'
import { PUBLIC_KEYS_FILE } from '../format/paths.js'
import { isKeyId, leafBounds, type TrustedKey, withoutLabel } from '../format/verifier.js'
import { rawPublicKey, verifierFromLine, verifierFromPublicKey } from './public-key.js'

/**
 * Reads `ed25519:<base64> [<first leaf> [<first leaf after>]]` lines, verifier keys, or one key in PEM or JWK.
 *
 * @throws as `readKeyLines`.
 */
export async function readKeys(path: string): Promise<TrustedKey[]> {
  const text = (await readInput(path, 'keys')).toString().trim()
  if (!/^(?:-----BEGIN|\{)/.test(text)) return keysInLines(text, path, trustedKey)
  try {
    return [verifierFromPublicKey(rawPublicKey(publicKeyIn(text)))]
  } catch (cause) {
    throw new SignerKeyError('key_malformed', `${path} holds no readable Ed25519 key`, cause)
  }
}

function publicKeyIn(text: string): KeyObject {
  return createPublicKey(text.startsWith('{') ? { key: JSON.parse(text), format: 'jwk' } : text)
}

/**
 * The results of `parse` for each line; blank lines, `#` comments and the ids that are printed beside keys are ignored.
 *
 * @throws {AuditError} `read_failed`, or {SignerKeyError} naming the line that is not a key.
 */
export async function readKeyLines<T>(path: string, parse: (line: string) => T): Promise<T[]> {
  return keysInLines((await readInput(path, 'keys')).toString(), path, parse)
}

function keysInLines<T>(text: string, path: string, parse: (line: string) => T): T[] {
  const keys = text.split('\n').flatMap((whole, index) => {
    const line = whole.trim()
    if (line === '' || /^(?:#|key id\s)/.test(line)) return []
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
  const [key = '', ...bounds] = withoutLabel(line).split(/\s+/)
  const verifier = parseVkey(key, ED25519_TYPE, verifierFromPublicKey)?.key ?? verifierOf(key)
  const leaves = leafBounds(bounds)
  if (leaves !== undefined) return { ...verifier, leaves }
  throw new SignerKeyError(
    'key_malformed',
    'after a public key follow the first leaf that it may sign, and the first that it may not',
  )
}

function verifierOf(key: string) {
  if (isKeyId(key))
    throw new SignerKeyError('key_malformed', 'this is the id of a key; the line of its public key is needed')
  if (parseBase64(key)?.length === PUBLIC_KEY_BYTES)
    throw new SignerKeyError(
      'key_malformed',
      'these 32 bytes may be a public key or a secret one: write ed25519: before a public key; `npx svc-sdk keys public FILE` prints that of a signing key',
    )
  return verifierFromLine(key)
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
