// The hash, the keys and the passkeys of pages, with WebCrypto, and the keys that a reader gives. The SHA-256 of WebCrypto is
// asynchronous, and a proof needs a hash for each level of the tree, so the hash is that of a library.
import { sha256 } from '@noble/hashes/sha2.js'
import type { ProofCrypto } from '../format/check-proof.js'
import { bytesOfDigest, concatBytes, type Digest, digestOfBytes, hexOf } from '../format/digest.js'
import { COSIGNATURE_TYPE, type NamedKey, noteKeyIdIn, noteKeyIdInput, parseVkey } from '../format/note.js'
import {
  type LeafBounds,
  type LeafKeys,
  leafBounds,
  type NoteVerifier,
  parsePublicKeyLine,
  withoutLabel,
} from '../format/verifier.js'

interface VerifierKey extends NoteVerifier {
  readonly leaves: LeafBounds
}

export interface VerifierKeys {
  readonly logs: readonly VerifierKey[]
  readonly witnesses: readonly NamedKey[]
  /** Numbers of the lines that are not keys. */
  readonly wrongLines: readonly number[]
}

/** Reads one key a line. Lines of any other form may be secrets, so they are named by their number only. */
export function readVerifierKeys(text: string): VerifierKeys {
  const logs: VerifierKey[] = []
  const witnesses: NamedKey[] = []
  const wrongLines: number[] = []
  for (const [index, whole] of text.split('\n').entries()) {
    const line = whole.trim()
    if (line === '' || /^(?:#|key id\s)/.test(line)) continue
    const log = logKey(line)
    const witness = log === undefined ? parseVkey(line, COSIGNATURE_TYPE, webVerifier) : undefined
    if (log !== undefined) logs.push(log)
    else if (witness !== undefined) witnesses.push(witness)
    else wrongLines.push(index + 1)
  }
  return { logs, witnesses, wrongLines }
}

function logKey(line: string): VerifierKey | undefined {
  const [key = '', ...bounds] = withoutLabel(line).split(/\s+/)
  const [publicKey, leaves] = [parsePublicKeyLine(key), leafBounds(bounds)]
  return publicKey && leaves && { ...webVerifier(publicKey), leaves }
}

/** A key may be given with several ranges of leaves. */
export function leafKeysOf(keys: readonly VerifierKey[]): LeafKeys {
  const mayFit = ({ leaves: [from, until] }: VerifierKey, leaf: number | undefined) =>
    leaf === undefined || (from <= leaf && leaf < until)
  return {
    has: (keyId) => keys.some((key) => key.keyId === keyId),
    at: (keyId, leaf) => keys.find((key) => key.keyId === keyId && mayFit(key, leaf)),
    allAt: (leaf) => keys.filter((key) => mayFit(key, leaf)),
  }
}

type Bytes = Uint8Array<ArrayBuffer>
type WebKey = Awaited<ReturnType<typeof crypto.subtle.importKey>>

interface Question {
  readonly id: string
  readonly key: Bytes
  readonly message: Bytes
  readonly signature: Bytes
}

const MAX_KNOWN = 50_000

/**
 * Lets a synchronous check use the asynchronous signatures of WebCrypto. The check runs with the assumption that the
 * signatures fit which are not known yet; these are verified, and the check runs again, until it asks for no other one.
 */
class Signatures {
  readonly #known = new Map<string, boolean>()
  readonly #keys = new Map<string, Promise<WebKey | undefined>>()
  #asked: Question[] = []

  verify(key: Bytes, message: Uint8Array, signature: Uint8Array): boolean {
    const id = digestOfBytes(sha256(concatBytes(key, signature, message)))
    const known = this.#known.get(id)
    // The message may be in memory that is used again.
    if (known === undefined)
      this.#asked.push({ id, key, message: message.slice(), signature: signature.slice() })
    return known ?? true
  }

  /** Undefined if this browser has no Ed25519. */
  async settle<T>(check: () => T): Promise<T | undefined> {
    if (this.#known.size > MAX_KNOWN) this.#known.clear()
    for (;;) {
      const result = check()
      const asked = this.#asked
      this.#asked = []
      if (asked.length === 0) return result
      for (const { id, key, message, signature } of asked) {
        const imported = await this.#imported(key)
        if (imported === undefined) return undefined
        this.#known.set(id, await crypto.subtle.verify('Ed25519', imported, signature, message))
      }
    }
  }

  #imported(key: Bytes): Promise<WebKey | undefined> {
    const id = hexOf(key)
    const found =
      this.#keys.get(id) ??
      crypto.subtle.importKey('raw', key, 'Ed25519', false, ['verify']).catch((error: unknown) => {
        if (error instanceof DOMException && error.name === 'NotSupportedError') return undefined
        throw error
      })
    this.#keys.set(id, found)
    return found
  }
}

const signatures = new Signatures()

export function webVerifier(publicKey: Bytes): NoteVerifier {
  return {
    keyId: `ed25519:${hexOf(sha256(publicKey))}`,
    publicKey,
    verify: (data, sig) => signatures.verify(publicKey, data, sig),
    noteId: (name, type) => noteKeyIdIn(sha256(noteKeyIdInput(name, publicKey, type))),
  }
}

export function webNodeHash(left: Digest, right: Digest): Digest {
  return digestOfBytes(sha256(concatBytes(Uint8Array.of(1), bytesOfDigest(left), bytesOfDigest(right))))
}

export const webCrypto: ProofCrypto = {
  hash: {
    leafHash: (line) => digestOfBytes(sha256(concatBytes(Uint8Array.of(0), line))),
    nodeHash: webNodeHash,
  },
  passkeys: { sha256, verifies },
  settle: (check) => signatures.settle(check),
}

async function verifies(
  { spki, algorithm: name }: { readonly spki: Bytes; readonly algorithm: string },
  signature: Bytes,
  message: Bytes,
): Promise<boolean | 'bad_key' | 'unknown'> {
  const algorithm = { name, namedCurve: 'P-256', hash: 'SHA-256' }
  try {
    const key = await crypto.subtle.importKey('spki', spki, algorithm, true, ['verify'])
    // Bytes may follow the key.
    if (hexOf(new Uint8Array(await crypto.subtle.exportKey('spki', key))) !== hexOf(spki)) return 'bad_key'
    return await crypto.subtle.verify(algorithm, key, signature, message)
  } catch (error) {
    if (!(error instanceof DOMException)) throw error
    return error.name === 'NotSupportedError' ? 'unknown' : 'bad_key'
  }
}
