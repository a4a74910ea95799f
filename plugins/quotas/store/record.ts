// A count and a bucket on disk: little-endian doubles.
import { TokenBucket } from './token-bucket.js'

const DOUBLE = 8

export function encodeCount(count: number): Buffer {
  return encode([count])
}

/** @throws {Error} when the bytes are no count */
export function decodeCount(bytes: Buffer): number {
  const [count = Number.NaN] = decode(bytes, 1)
  if (!(Number.isSafeInteger(count) && count > 0)) throw new Error(`a stored count is ${count}`)
  return count
}

export function encodeBucket({ state: { tokens, at }, fullAt }: TokenBucket): Buffer {
  return encode([tokens, at, fullAt])
}

/** @throws {Error} when the bytes are no bucket */
export function decodeBucket(bytes: Buffer): TokenBucket {
  const [tokens = Number.NaN, at = Number.NaN, fullAt = Number.NaN] = decode(bytes, 3)
  if (![tokens, at, fullAt].every(Number.isFinite)) throw new Error('a stored bucket is no bucket')
  const bucket = new TokenBucket(tokens, at)
  bucket.fullAt = fullAt
  return bucket
}

function encode(numbers: readonly number[]): Buffer {
  const bytes = Buffer.alloc(numbers.length * DOUBLE)
  numbers.forEach((number, i) => {
    bytes.writeDoubleLE(number, i * DOUBLE)
  })
  return bytes
}

function decode(bytes: Buffer, length: number): number[] {
  if (bytes.length !== length * DOUBLE)
    throw new Error(`a stored record of ${bytes.length} bytes cannot be read`)
  return Array.from({ length }, (_, i) => bytes.readDoubleLE(i * DOUBLE))
}
