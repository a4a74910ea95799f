// The keys that the reader gives: of logs, as `svc audit verify --write-keys` writes them, and of witnesses.

import { type Bytes, hexOf, sha256, strictBase64, textBytes } from './bytes.js'

const KEY_BYTES = 32
const WITNESS_TYPE = 0x04
const LEAF_INDEX = /^(?:0|[1-9]\d{0,15})$/
const WITNESS_KEY = /^([^\s+\p{Cc}]+)\+([0-9a-f]{8})\+(\S+)$/u

export interface GivenKey {
  /** `ed25519:` and the SHA-256 of the key in hexadecimal. */
  readonly id: string
  readonly bytes: Bytes
  /** The first leaf that it may sign, and the first that it may not. */
  readonly from: number
  readonly until: number
}

export interface GivenWitness {
  readonly name: string
  /** The key id in signature lines, in hexadecimal. */
  readonly id: string
  readonly bytes: Bytes
}

export interface GivenKeys {
  readonly logs: readonly GivenKey[]
  readonly witnesses: readonly GivenWitness[]
  /** Numbers of the lines that are not keys. */
  readonly wrongLines: readonly number[]
}

/** Reads one key a line. Lines of any other form may be secrets, so they are named by their number only. */
export async function readGivenKeys(text: string): Promise<GivenKeys> {
  const logs: GivenKey[] = []
  const witnesses: GivenWitness[] = []
  const wrongLines: number[] = []
  for (const [index, whole] of text.split('\n').entries()) {
    const line = whole.trim()
    if (line === '' || line.startsWith('#')) continue
    const log = await logKey(line)
    const witness = log === undefined ? await witnessKey(line) : undefined
    if (log !== undefined) logs.push(log)
    else if (witness !== undefined) witnesses.push(witness)
    else wrongLines.push(index + 1)
  }
  return { logs, witnesses, wrongLines }
}

async function logKey(line: string): Promise<GivenKey | undefined> {
  const [key = '', from = '0', until, ...more] = line.split(/\s+/)
  const bytes = key.startsWith('ed25519:') ? strictBase64(key.slice('ed25519:'.length)) : undefined
  if (bytes?.length !== KEY_BYTES || more.length > 0) return undefined
  if (![from, until ?? '0'].every((leaf) => LEAF_INDEX.test(leaf))) return undefined
  const leaves = { from: Number(from), until: until === undefined ? Number.POSITIVE_INFINITY : Number(until) }
  if (leaves.from >= leaves.until) return undefined
  return { id: `ed25519:${hexOf(await sha256(bytes))}`, bytes, ...leaves }
}

async function witnessKey(line: string): Promise<GivenWitness | undefined> {
  const [, name, id, encoded] = WITNESS_KEY.exec(line) ?? []
  const bytes = encoded === undefined ? undefined : strictBase64(encoded)
  if (name === undefined || bytes?.length !== 1 + KEY_BYTES || bytes[0] !== WITNESS_TYPE) return undefined
  const key = bytes.slice(1)
  return (await noteKeyHash(name, WITNESS_TYPE, key)) === id ? { name, id, bytes: key } : undefined
}

/** The first 4 bytes of `SHA-256(name || 0x0A || type || key)`, in hexadecimal (c2sp.org/signed-note). */
export async function noteKeyHash(name: string, type: number, key: Bytes): Promise<string> {
  return hexOf(await sha256(textBytes(`${name}\n`), Uint8Array.of(type), key)).slice(0, 8)
}

/**
 * Whether the key has signed the message; undefined if this browser has no Ed25519.
 */
export async function verifiesEd25519(
  key: Bytes,
  message: Bytes,
  signature: Bytes,
): Promise<boolean | undefined> {
  const imported = await importKey(key)
  if (imported === undefined) return undefined
  return crypto.subtle.verify('Ed25519', imported, signature, message)
}

type ImportedKey = Awaited<ReturnType<typeof crypto.subtle.importKey>>
const imported = new Map<string, Promise<ImportedKey | undefined>>()

function importKey(key: Bytes): Promise<ImportedKey | undefined> {
  const id = hexOf(key)
  const found =
    imported.get(id) ??
    crypto.subtle.importKey('raw', key, 'Ed25519', false, ['verify']).catch((error: unknown) => {
      if (error instanceof DOMException && error.name === 'NotSupportedError') return undefined
      throw error
    })
  imported.set(id, found)
  return found
}
