import { SharedBatch } from '@svc/plugin-audit/internal/log/signing/shared-batch'
import { expect } from 'chai'
import fc from 'fast-check'
import { signer } from '../writer/records.js'

const size = { bytes: 4096, messages: 64 }
const sign = (message: Uint8Array) => signer.sign(message)

/**
 * Whether the message has its own signature. Copies to memory of this thread, because not all natives read shared
 * memory.
 */
function isSigned(batch: SharedBatch, index: number): boolean {
  return signer.verify(Buffer.from(batch.message(index)), Buffer.from(batch.signature(index)))
}

/** Puts texts one after the other, as a batch does. */
function put(batch: SharedBatch, texts: readonly string[], at = 0): void {
  let start = at
  for (const text of texts) {
    const end = start + batch.bytes.write(text, start)
    batch.put(start, end, start)
    start = end
  }
}

/** Two views of the same memory: this thread's and the other's. */
function shared() {
  const memory = new SharedArrayBuffer(16_384)
  return { batch: new SharedBatch(memory, 0, size), other: new SharedBatch(memory, 0, size) }
}

describe('the memory of a batch that two threads sign', () => {
  it('has every message signed once, whatever the timing of the threads', () => {
    fc.assert(
      fc.property(
        fc.array(fc.string({ minLength: 1, maxLength: 20 }), { maxLength: 40 }),
        fc.nat(40),
        (texts, at) => {
          const { batch, other } = shared()
          put(batch, texts.slice(0, at))
          other.signOpen(sign)
          put(batch, texts.slice(at), texts.slice(0, at).join('').length * 3)
          const states = texts.map((_, i) => batch.claim(i))
          expect(states).to.deep.equal(texts.map((_, i) => (i < at ? 'signed' : 'open')))
          for (const [i, state] of states.entries()) {
            if (state === 'signed') expect(isSigned(batch, i)).to.equal(true)
          }
          expect(other.signOpen(() => expect.fail('nothing is left'))).to.equal(false)
        },
      ),
    )
  })

  it('reports a message as taken while the other thread signs it, and the ones before as signed', () => {
    const { batch, other } = shared()
    put(batch, ['first', 'second', 'third'])
    const seen: string[][] = []
    other.signOpen((message) => {
      if (Buffer.from(message).toString() === 'second') seen.push([2, 1, 0].map((i) => batch.claim(i)))
      return sign(message)
    })
    expect(seen).to.deep.equal([['open', 'taken', 'signed']])
    expect(batch.waitFor(1)).to.equal(true)
    expect(isSigned(batch, 1)).to.equal(true)
  })

  it('waits at most as long as a signature takes, and is idle only when the other thread has finished', () => {
    const { batch, other } = shared()
    put(batch, ['slow'])
    other.signOpen((message) => {
      expect(batch.claim(0)).to.equal('taken')
      expect(batch.waitFor(0)).to.equal(false)
      expect(batch.isIdle).to.equal(false)
      return sign(message)
    })
    expect(batch.isIdle).to.equal(true)
  })

  it('is signed from the front again after it was emptied', () => {
    const { batch, other } = shared()
    for (const texts of [['a', 'b'], ['c', 'd', 'e'], ['f']]) {
      put(batch, texts)
      other.signOpen(sign)
      expect(texts.map((_, i) => batch.claim(i))).to.deep.equal(texts.map(() => 'signed'))
      for (const [i, text] of texts.entries()) {
        expect(Buffer.from(batch.message(i)).toString()).to.equal(text)
        expect(isSigned(batch, i)).to.equal(true)
      }
      batch.empty()
    }
  })
})
