import {
  type Ed25519,
  loadLibsodium,
  loadSodiumNative,
  nodeCrypto,
} from '@svc/plugin-audit/internal/log/keys/ed25519'
import { expect } from 'chai'
import fc from 'fast-check'

describe('the Ed25519 implementations', () => {
  let implementations: Ed25519[]

  before(async () => {
    const native = loadSodiumNative()
    implementations = [nodeCrypto, await loadLibsodium(), ...(native === undefined ? [] : [native])]
  })

  it("derive the same public key and signature, and accept each other's", () => {
    const seeds = fc.uint8Array({ minLength: 32, maxLength: 32 })
    fc.assert(
      fc.property(seeds, fc.uint8Array({ maxLength: 300 }), (seed, data) => {
        const reference = nodeCrypto.signingKey(seed)
        const sig = Buffer.from(reference.sign(data))
        for (const implementation of implementations) {
          const key = implementation.signingKey(seed)
          expect(Buffer.from(key.publicKey).equals(reference.publicKey), implementation.name).to.equal(true)
          expect(Buffer.from(key.sign(data)).equals(sig), implementation.name).to.equal(true)
          expect(implementation.verify(key.publicKey, data, sig), implementation.name).to.equal(true)
        }
      }),
      { numRuns: 25 },
    )
  })

  it('refuse a signature with one bit changed, or of the wrong length', () => {
    const seed = new Uint8Array(32).fill(9)
    const data = Buffer.from('record')
    const sig = Buffer.from(nodeCrypto.signingKey(seed).sign(data))
    const { publicKey } = nodeCrypto.signingKey(seed)
    for (const implementation of implementations) {
      for (const bit of [0, 255, 300, 511]) {
        const changed = Buffer.from(sig)
        changed[bit >> 3] = (changed[bit >> 3] ?? 0) ^ (1 << (bit & 7))
        expect(implementation.verify(publicKey, data, changed), `${implementation.name} ${bit}`).to.equal(
          false,
        )
      }
      expect(implementation.verify(publicKey, data, sig.subarray(0, 63)), implementation.name).to.equal(false)
    }
  })

  it('fall back when sodium-native is absent, and only then', () => {
    const failing = (code: string) => () => {
      throw Object.assign(new Error(code), { code })
    }
    expect(loadSodiumNative(failing('MODULE_NOT_FOUND'))).to.equal(undefined)
    expect(() => loadSodiumNative(failing('ERR_INTERNAL_ASSERTION'))).to.throw('ERR_INTERNAL_ASSERTION')
  })
})
