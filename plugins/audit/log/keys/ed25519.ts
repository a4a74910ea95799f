// Three implementations of Ed25519 (RFC 8032) behind one interface; the fastest available one signs. Ed25519 is
// deterministic: all three give the same signature.

import {
  createPrivateKey,
  createPublicKey,
  type KeyObject,
  sign as nodeSign,
  verify as nodeVerify,
} from 'node:crypto'
import { requireFrom } from '../files/require-from.js'
import { systemCode } from '../format/errors.js'
import { PUBLIC_KEY_BYTES, SIGNATURE_BYTES } from '../format/key-sizes.js'

export interface SigningKey {
  readonly publicKey: Uint8Array
  sign(data: Uint8Array): Uint8Array
}

export interface Ed25519 {
  readonly name: 'sodium-native' | 'libsodium-wrappers' | 'node:crypto'
  signingKey(seed: Uint8Array): SigningKey
  verify(publicKey: Uint8Array, data: Uint8Array, sig: Uint8Array): boolean
}

export const SEED_BYTES = 32

// DER prefixes of RFC 8410 §7, before the 32 key bytes.
const PKCS8 = Buffer.from('302e020100300506032b657004220420', 'hex')
const SPKI = Buffer.from('302a300506032b6570032100', 'hex')

function hasValidLengths(publicKey: Uint8Array, sig: Uint8Array): boolean {
  return publicKey.length === PUBLIC_KEY_BYTES && sig.length === SIGNATURE_BYTES
}

const publicKeyObjects = new WeakMap<Uint8Array, KeyObject>()

function publicKeyObject(publicKey: Uint8Array): KeyObject {
  const known = publicKeyObjects.get(publicKey)
  if (known !== undefined) return known
  const key = createPublicKey({ key: Buffer.concat([SPKI, publicKey]), format: 'der', type: 'spki' })
  publicKeyObjects.set(publicKey, key)
  return key
}

export const nodeCrypto: Ed25519 = {
  name: 'node:crypto',
  signingKey(seed) {
    const der = Buffer.concat([PKCS8, seed])
    const key = createPrivateKey({ key: der, format: 'der', type: 'pkcs8' })
    der.fill(0)
    const spki = createPublicKey(key).export({ format: 'der', type: 'spki' })
    return {
      publicKey: new Uint8Array(spki.subarray(SPKI.length)),
      sign: (data) => nodeSign(null, data, key),
    }
  },
  verify(publicKey, data, sig) {
    return hasValidLengths(publicKey, sig) && nodeVerify(null, data, publicKeyObject(publicKey), sig)
  },
}

interface SodiumNative {
  crypto_sign_seed_keypair(publicKey: Uint8Array, secretKey: Uint8Array, seed: Uint8Array): void
  crypto_sign_detached(sig: Uint8Array, data: Uint8Array, secretKey: Uint8Array): void
  crypto_sign_verify_detached(sig: Uint8Array, data: Uint8Array, publicKey: Uint8Array): boolean
}

// Error codes of Node and the addon loader for a package, or its binary for this platform, that is absent.
const ABSENT = new Set(['MODULE_NOT_FOUND', 'ERR_DLOPEN_FAILED', 'ADDON_NOT_FOUND'])

const requireHere = requireFrom(import.meta.url)

/** sodium-native, or undefined if it is not installed or has no binary for this platform. */
export function loadSodiumNative(require: (name: string) => unknown = requireHere): Ed25519 | undefined {
  let sodium: SodiumNative
  try {
    sodium = require('sodium-native') as SodiumNative
  } catch (error) {
    if (ABSENT.has(systemCode(error) ?? '')) return undefined
    throw error
  }
  return {
    name: 'sodium-native',
    signingKey(seed) {
      const publicKey = Buffer.alloc(PUBLIC_KEY_BYTES)
      const secretKey = Buffer.alloc(64)
      sodium.crypto_sign_seed_keypair(publicKey, secretKey, seed)
      // Native code needs memory outside the engine's heap. Copying out of one such buffer costs less than
      // allocating one per signature.
      const sig = Buffer.allocUnsafeSlow(SIGNATURE_BYTES)
      return {
        publicKey: new Uint8Array(publicKey),
        sign(data) {
          sodium.crypto_sign_detached(sig, data, secretKey)
          return new Uint8Array(sig)
        },
      }
    },
    verify: (publicKey, data, sig) =>
      hasValidLengths(publicKey, sig) && sodium.crypto_sign_verify_detached(sig, data, publicKey),
  }
}

/** libsodium compiled to WebAssembly. It loads asynchronously; until then node:crypto signs. */
export async function loadLibsodium(): Promise<Ed25519> {
  const { default: sodium } = await import('libsodium-wrappers')
  await sodium.ready
  return {
    name: 'libsodium-wrappers',
    signingKey(seed) {
      const pair = sodium.crypto_sign_seed_keypair(seed)
      return {
        publicKey: pair.publicKey,
        sign: (data) => sodium.crypto_sign_detached(data, pair.privateKey),
      }
    },
    verify: (publicKey, data, sig) =>
      hasValidLengths(publicKey, sig) && sodium.crypto_sign_verify_detached(sig, data, publicKey),
  }
}

let current: Ed25519 | undefined
let loading: Promise<Ed25519> | undefined

/** The fastest implementation that is loaded. */
export function ed25519(): Ed25519 {
  if (current !== undefined) return current
  current = loadSodiumNative() ?? nodeCrypto
  if (current === nodeCrypto) void whenFastest()
  return current
}

/** Resolves when the fastest implementation of this machine is loaded and in use. */
export function whenFastest(): Promise<Ed25519> {
  if (ed25519().name !== 'node:crypto') return Promise.resolve(ed25519())
  loading ??= loadLibsodium().then(
    (libsodium) => {
      current = libsodium
      return libsodium
    },
    (error: unknown) => {
      // node:crypto gives the same signatures, only slower.
      process.emitWarning(`libsodium did not load, node:crypto signs instead: ${error}`, 'SvcSignerWarning')
      return nodeCrypto
    },
  )
  return loading
}
