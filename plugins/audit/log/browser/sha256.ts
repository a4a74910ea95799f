// SHA-256 (FIPS 180-4) for pages: the one of WebCrypto is asynchronous, and a proof needs a hash for each level of the tree.

const BLOCK = 64
const LENGTH_BYTES = 8
const fraction = (value: number) => Math.floor((value - Math.floor(value)) * 2 ** 32)
const primes = firstPrimes(64)
const ROUNDS = Int32Array.from(primes, (prime) => fraction(Math.cbrt(prime)))
const START = Int32Array.from(primes.slice(0, 8), (prime) => fraction(Math.sqrt(prime)))

function firstPrimes(count: number): number[] {
  const found: number[] = []
  for (let n = 2; found.length < count; n++) if (found.every((prime) => n % prime !== 0)) found.push(n)
  return found
}

export function sha256(bytes: Uint8Array): Uint8Array<ArrayBuffer> {
  const padded = new Uint8Array(Math.ceil((bytes.length + 1 + LENGTH_BYTES) / BLOCK) * BLOCK)
  padded.set(bytes)
  padded[bytes.length] = 0x80
  const view = new DataView(padded.buffer)
  view.setBigUint64(padded.length - LENGTH_BYTES, BigInt(bytes.length) * 8n)
  const state = START.slice()
  for (let at = 0; at < padded.length; at += BLOCK) addBlock(state, view, at)
  const digest = new DataView(new ArrayBuffer(32))
  for (const [at, word] of state.entries()) digest.setInt32(at * 4, word)
  return new Uint8Array(digest.buffer)
}

const rotated = (word: number, by: number) => (word >>> by) | (word << (32 - by))
const schedule = new Int32Array(64)

function addBlock(state: Int32Array, view: DataView, start: number): void {
  const w = schedule
  for (let i = 0; i < 16; i++) w[i] = view.getInt32(start + i * 4)
  for (let i = 16; i < 64; i++) {
    const [early, late] = [w[i - 15] as number, w[i - 2] as number]
    const first = rotated(early, 7) ^ rotated(early, 18) ^ (early >>> 3)
    const second = rotated(late, 17) ^ rotated(late, 19) ^ (late >>> 10)
    w[i] = (w[i - 16] as number) + first + (w[i - 7] as number) + second
  }
  let [a = 0, b = 0, c = 0, d = 0, e = 0, f = 0, g = 0, h = 0] = state
  for (let i = 0; i < 64; i++) {
    const choice = (e & f) ^ (~e & g)
    const majority = (a & b) ^ (a & c) ^ (b & c)
    const one =
      h +
      (rotated(e, 6) ^ rotated(e, 11) ^ rotated(e, 25)) +
      choice +
      (ROUNDS[i] as number) +
      (w[i] as number)
    const two = (rotated(a, 2) ^ rotated(a, 13) ^ rotated(a, 22)) + majority
    h = g
    g = f
    f = e
    e = (d + one) | 0
    d = c
    c = b
    b = a
    a = (one + two) | 0
  }
  for (const [at, word] of [a, b, c, d, e, f, g, h].entries()) state[at] = (state[at] as number) + word
}
