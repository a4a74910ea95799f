// Checkpoints: signed notes (c2sp.org/signed-note, c2sp.org/tlog-checkpoint) and cosignatures of witnesses.

import { type Bytes, hexOf, strictBase64, textBytes } from './bytes.js'
import { type CheckResult, confirmed, notChecked, refuted } from './check-result.js'
import { type GivenKey, type GivenWitness, noteKeyHash, verifiesEd25519 } from './given-keys.js'

const LOG_TYPE = 0x01
const MAX_SIGNATURE_LINES = 16
const ID_BYTES = 4
const TIME_BYTES = 8
const SIGNATURE_LENGTH = 64
const MAX_AHEAD_MS = 3_600_000
const NOTE_SIGNATURE = /^\u2014 ([^\s+]+) (\S+)$/
const LOG_NAME = /^(?=[^.]*\.)[^\s+\p{Cc}]{1,255}$/u
const TREE_SIZE = /^(?:0|[1-9]\d{0,15})$/

interface SignatureLine {
  readonly name: string
  /** In hexadecimal. */
  readonly id: string
  readonly bytes: Bytes
}

export interface SignedCheckpoint {
  readonly origin: string
  readonly size: number
  readonly root: Bytes
  /** The signed text. */
  readonly text: string
  readonly signatures: readonly SignatureLine[]
}

/** Undefined for any text that is not one checkpoint. */
export function readCheckpoint(note: string): SignedCheckpoint | undefined {
  const end = note.lastIndexOf('\n\n')
  if (/[^\n\u0020-\uffff]/.test(note) || !note.endsWith('\n') || end < 1) return undefined
  const text = note.slice(0, end + 1)
  const signatures = note
    .slice(end + 2, -1)
    .split('\n')
    .map(signatureLine)
  const [origin = '', sizeLine = '', rootLine = '', last, ...more] = text.split('\n')
  const root = strictBase64(rootLine)
  const size = Number(sizeLine)
  if (last !== '' || more.length > 0 || root?.length !== 32 || signatures.length > MAX_SIGNATURE_LINES)
    return undefined
  if (!LOG_NAME.test(origin) || !TREE_SIZE.test(sizeLine) || !Number.isSafeInteger(size)) return undefined
  if (!signatures.every((line) => line !== undefined)) return undefined
  return { origin, size, root, text, signatures }
}

function signatureLine(line: string): SignatureLine | undefined {
  const [, name = '', encoded = ''] = NOTE_SIGNATURE.exec(line) ?? []
  const bytes = strictBase64(encoded)
  if (bytes === undefined || bytes.length <= ID_BYTES) return undefined
  return { name, id: hexOf(bytes.slice(0, ID_BYTES)), bytes: bytes.slice(ID_BYTES) }
}

const checked = new WeakMap<
  SignedCheckpoint,
  { readonly keys: readonly GivenKey[]; readonly result: Promise<CheckResult> }
>()

/** Whether a key has signed the checkpoint that may sign its last leaf, and none of these wrongly. */
export function checkCheckpoint(
  checkpoint: SignedCheckpoint,
  keys: readonly GivenKey[],
): Promise<CheckResult> {
  const known = checked.get(checkpoint)
  if (known?.keys === keys) return known.result
  const result = signatureResult(checkpoint, keys)
  checked.set(checkpoint, { keys, result })
  return result
}

async function signatureResult(
  { origin, size, text, signatures }: SignedCheckpoint,
  keys: readonly GivenKey[],
): Promise<CheckResult> {
  if (keys.length === 0) return notChecked('no key of the log is given')
  const message = textBytes(text)
  let signer: GivenKey | undefined
  let untrusted: GivenKey | undefined
  for (const key of keys) {
    const id = await noteKeyHash(origin, LOG_TYPE, key.bytes)
    for (const line of signatures.filter((one) => one.name === origin && one.id === id)) {
      if (size - 1 < key.from || size - 1 >= key.until) {
        untrusted = key
        continue
      }
      const fits =
        line.bytes.length === SIGNATURE_LENGTH && (await verifiesEd25519(key.bytes, message, line.bytes))
      if (fits === undefined) return notChecked('this browser has no Ed25519')
      if (!fits) return refuted('the signature of the checkpoint does not fit', { expected: key.id })
      signer = key
    }
  }
  if (signer !== undefined) return confirmed(`signed by ${signer.id}`)
  if (untrusted !== undefined)
    return refuted(`the key of the checkpoint may not sign leaf ${size - 1}`, { found: untrusted.id })
  return refuted('the checkpoint is signed by none of the given keys')
}

export interface CheckedCosignature {
  readonly witness: string
  readonly result: CheckResult
  /** By the witness's clock, seconds since the epoch. */
  readonly time?: number
}

export async function checkCosignature(
  { text, signatures }: SignedCheckpoint,
  { name, id, bytes: key }: GivenWitness,
): Promise<CheckedCosignature> {
  let newest = 0
  for (const line of signatures.filter((one) => one.name === name && one.id === id)) {
    const time = cosignedTime(line.bytes)
    const message = textBytes(`cosignature/v1\ntime ${time}\n${text}`)
    const fits = time !== undefined && (await verifiesEd25519(key, message, line.bytes.slice(TIME_BYTES)))
    if (fits === undefined) return { witness: name, result: notChecked('this browser has no Ed25519') }
    if (!fits) return { witness: name, result: refuted('the cosignature does not fit') }
    newest = Math.max(newest, time)
  }
  if (newest === 0) return { witness: name, result: notChecked('it has not cosigned this checkpoint') }
  // A time in the future would never grow old.
  if (newest * 1000 > Date.now() + MAX_AHEAD_MS)
    return { witness: name, result: notChecked('the time of its cosignature lies in the future') }
  return {
    witness: name,
    result: confirmed(`cosigned at ${new Date(newest * 1000).toISOString()}`),
    time: newest,
  }
}

function cosignedTime(bytes: Bytes): number | undefined {
  if (bytes.length !== TIME_BYTES + SIGNATURE_LENGTH) return undefined
  const time = Number(new DataView(bytes.buffer, bytes.byteOffset).getBigUint64(0))
  // The latest time that `Date` can print.
  return time > 0 && time <= 8.64e12 ? time : undefined
}
