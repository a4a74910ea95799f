// Signing keys on disk: PKCS#8 PEM, or base64 of a 32-byte seed or of libsodium's 64-byte secret key.

import { createPrivateKey, createPublicKey, generateKeyPairSync } from 'node:crypto'
import {
  closeSync,
  constants as fsConstants,
  fstatSync,
  fsyncSync,
  openSync,
  readFileSync,
  writeSync,
} from 'node:fs'
import { dirname, resolve } from 'node:path'
import { makeDirectories } from '@svc/core/directories'
import { parseBase64 } from '@svc/core/json'
import { SignerKeyError, systemCode } from '../format/errors.js'
import { publicKeyLine } from '../format/verifier.js'
import { ed25519, SEED_BYTES } from './ed25519.js'
import { keyIdOf, rawPublicKey } from './public-key.js'

const SCHEME = 'file://'
const WORLD_WRITABLE = 0o002
const WORLD_READABLE = 0o004
const MAX_KEY_FILE_BYTES = 16_384

export type OnWarning = (message: string) => void

/** @throws {SignerKeyError} `bad_key_ref` when `keyRef` is not `file://<path>`. A relative path is allowed. */
export function pathOfKeyRef(keyRef: string): string {
  const rest = keyRef.startsWith(SCHEME) ? keyRef.slice(SCHEME.length).replace(/^localhost(?=\/)/, '') : ''
  if (rest === '' || rest.includes('\0')) {
    throw new SignerKeyError('bad_key_ref', 'a key reference has the form file://<path to an Ed25519 key>')
  }
  try {
    return resolve(decodeURIComponent(rest))
  } catch (cause) {
    // The path is not percent-encoded, so it is used unchanged.
    if (cause instanceof URIError) return resolve(rest)
    throw cause
  }
}

/**
 * The 32-byte seed in the file.
 *
 * @throws {SignerKeyError} one code per way in which the file cannot be used.
 */
export function readSeed(path: string, onWarning: OnWarning): Uint8Array {
  const text = readKeyText(path, onWarning)
  if (text.startsWith('-----BEGIN')) return seedOfPem(text, path)
  const bytes = parseBase64(text)
  if (bytes === undefined) {
    throw new SignerKeyError('key_malformed', `${path} holds neither base64 nor a PKCS#8 PEM key`)
  }
  if (bytes.length === SEED_BYTES) return bytes
  if (bytes.length === 2 * SEED_BYTES) return seedOfSecretKey(bytes, path)
  throw new SignerKeyError(
    'key_wrong_length',
    `${path} holds ${bytes.length} bytes; an Ed25519 key is a 32-byte seed or a 64-byte secret key`,
  )
}

/** The text of a file with a secret, without white space around it. @throws {SignerKeyError} */
export function readKeyText(path: string, onWarning: OnWarning): string {
  let fd: number
  try {
    // Without O_NONBLOCK, opening a named pipe would block the start.
    fd = openSync(path, fsConstants.O_RDONLY | fsConstants.O_NONBLOCK)
  } catch (cause) {
    if (systemCode(cause) === 'ENOENT') {
      throw new SignerKeyError(
        'key_missing',
        `no key file at ${path}; npx svc-sdk keys generate makes one`,
        cause,
      )
    }
    throw new SignerKeyError(
      'key_unreadable',
      `the key file ${path} cannot be read (${systemCode(cause)})`,
      cause,
    )
  }
  try {
    const stat = fstatSync(fd)
    if (!stat.isFile()) throw new SignerKeyError('key_unreadable', `${path} is not a regular file`)
    if (stat.size > MAX_KEY_FILE_BYTES) {
      throw new SignerKeyError('key_malformed', `${path} has ${stat.size} bytes, too many for a key`)
    }
    if (process.platform !== 'win32') {
      if (stat.mode & WORLD_WRITABLE) {
        throw new SignerKeyError(
          'key_world_writable',
          `anyone may overwrite the key file ${path}: chmod 600 it`,
        )
      }
      if (stat.mode & WORLD_READABLE)
        onWarning(`anyone on this machine may read the key file ${path}: chmod 600 it`)
    }
    return readFileSync(fd, 'utf8').trim()
  } finally {
    closeSync(fd)
  }
}

function seedOfPem(text: string, path: string): Uint8Array {
  let d: string | undefined
  try {
    const key = createPrivateKey(text)
    d = key.asymmetricKeyType === 'ed25519' ? key.export({ format: 'jwk' }).d : undefined
  } catch {
    throw new SignerKeyError('key_malformed', `${path} holds no readable PKCS#8 PEM key`)
  }
  if (d === undefined)
    throw new SignerKeyError('key_malformed', `the PEM key in ${path} is not an Ed25519 key`)
  return new Uint8Array(Buffer.from(d, 'base64url'))
}

function seedOfSecretKey(secretKey: Uint8Array, path: string): Uint8Array {
  const seed = secretKey.slice(0, SEED_BYTES)
  const { publicKey } = ed25519().signingKey(seed)
  if (Buffer.compare(publicKey, secretKey.subarray(SEED_BYTES)) !== 0) {
    throw new SignerKeyError(
      'key_mismatch',
      `the public half of the key in ${path} does not belong to its seed`,
    )
  }
  return seed
}

/** A new signing key in PEM, which cannot be mistaken for a public key. */
export function newSigningKey(): string {
  return String(generateKeyPairSync('ed25519').privateKey.export({ format: 'pem', type: 'pkcs8' })).trim()
}

interface GeneratedKey {
  readonly keyId: string
  /** `ed25519:<base64>`. */
  readonly publicKey: string
}

/**
 * Writes a new signing key to `path`, mode 0600.
 *
 * @throws {SignerKeyError} `key_exists`, never overwriting; `key_unreadable` if it cannot be written.
 */
export function generateKeyFile(path: string): GeneratedKey {
  const key = newSigningKey()
  let fd: number
  try {
    makeDirectories(dirname(resolve(path)), 0o700)
    fd = openSync(path, 'wx', 0o600)
  } catch (cause) {
    if (systemCode(cause) === 'EEXIST') {
      throw new SignerKeyError('key_exists', `${path} exists already; a key is never overwritten`, cause)
    }
    throw new SignerKeyError('key_unreadable', `${path} cannot be written (${systemCode(cause)})`, cause)
  }
  try {
    writeSync(fd, `${key}\n`)
    fsyncSync(fd)
  } finally {
    closeSync(fd)
  }
  const publicKey = rawPublicKey(createPublicKey(key))
  return { keyId: keyIdOf(publicKey), publicKey: publicKeyLine(publicKey) }
}
