// An entry on disk: a line of JSON, then the answer's bytes.
import { type Entry, phases } from './entry.js'

const LINE_FEED = 10

export function encodeEntry(entry: Entry): Buffer {
  const { phase, fingerprint, owner, leaseMs, leaseUntil, expiresAt, answer } = entry
  const head = JSON.stringify([phase, fingerprint, owner, leaseMs, leaseUntil, expiresAt, answer !== null])
  return Buffer.concat([Buffer.from(`${head}\n`), answer ?? Buffer.alloc(0)])
}

/** @throws {Error} when the bytes are no entry */
export function decodeEntry(bytes: Buffer): Entry {
  const [phase, fingerprint, owner, leaseMs, leaseUntil, expiresAt, isKept] = headOf(bytes)
  const isEntry =
    phases.some((one) => one === phase) &&
    typeof fingerprint === 'string' &&
    typeof owner === 'string' &&
    [leaseMs, leaseUntil, expiresAt].every(Number.isFinite) &&
    typeof isKept === 'boolean'
  if (!isEntry) throw foreign(bytes)
  const answer = isKept ? bytes.subarray(bytes.indexOf(LINE_FEED) + 1) : null
  return { phase, fingerprint, owner, leaseMs, leaseUntil, expiresAt, answer } as Entry
}

function headOf(bytes: Buffer): readonly unknown[] {
  try {
    const head: unknown = JSON.parse(bytes.toString('utf8', 0, bytes.indexOf(LINE_FEED)))
    return Array.isArray(head) ? head : []
  } catch (cause) {
    throw foreign(bytes, { cause })
  }
}

function foreign(bytes: Buffer, options?: ErrorOptions): Error {
  return new Error(`a stored record of ${bytes.length} bytes cannot be read`, options)
}
