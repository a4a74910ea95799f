import { Slot } from '@svc/plugin-audit/internal/log/signing/shared-batch'
import { expect } from 'chai'
import fc from 'fast-check'
import { signer } from '../writer/records.js'

const size = { bytes: 4096, messages: 64 }
const sign = (message: Uint8Array) => signer.sign(message)

/** Whether the message has its own signature; in memory of this thread's, since not all natives read shared one. */
function isSigned(slot: Slot, index: number): boolean {
  return signer.verify(Buffer.from(slot.message(index)), Buffer.from(slot.signature(index)))
}

/** Puts texts one after the other, as a batch does. */
function put(slot: Slot, texts: readonly string[], at = 0): void {
  let start = at
  for (const text of texts) {
    const end = start + slot.bytes.write(text, start)
    slot.put(start, end, start)
    start = end
  }
}

/** Two views of the same memory: this thread's and the other's. */
function shared() {
  const memory = new SharedArrayBuffer(16_384)
  return { slot: new Slot(memory, 0, size), other: new Slot(memory, 0, size) }
}

describe('the memory of a batch that two threads sign', () => {
  it('has every message signed once, whichever thread is how far when', () => {
    fc.assert(
      fc.property(
        fc.array(fc.string({ minLength: 1, maxLength: 20 }), { maxLength: 40 }),
        fc.nat(40),
        (texts, at) => {
          const { slot, other } = shared()
          put(slot, texts.slice(0, at))
          other.signOpen(sign)
          put(slot, texts.slice(at), texts.slice(0, at).join('').length * 3)
          const states = texts.map((_, i) => slot.takeBack(i))
          expect(states).to.deep.equal(texts.map((_, i) => (i < at ? 'signed' : 'open')))
          for (const [i, state] of states.entries()) {
            if (state === 'signed') expect(isSigned(slot, i)).to.equal(true)
          }
          expect(other.signOpen(() => expect.fail('nothing is left'))).to.equal(false)
        },
      ),
    )
  })

  it('says of a message that it is taken while the other thread signs it, and of those before that they are signed', () => {
    const { slot, other } = shared()
    put(slot, ['first', 'second', 'third'])
    const seen: string[][] = []
    other.signOpen((message) => {
      if (Buffer.from(message).toString() === 'second') seen.push([2, 1, 0].map((i) => slot.takeBack(i)))
      return sign(message)
    })
    expect(seen).to.deep.equal([['open', 'taken', 'signed']])
    expect(slot.waitFor(1)).to.equal(true)
    expect(isSigned(slot, 1)).to.equal(true)
  })

  it('waits for no signature longer than one takes, and is not idle until the other thread is done with it', () => {
    const { slot, other } = shared()
    put(slot, ['slow'])
    other.signOpen((message) => {
      expect(slot.takeBack(0)).to.equal('taken')
      expect(slot.waitFor(0)).to.equal(false)
      expect(slot.isIdle).to.equal(false)
      return sign(message)
    })
    expect(slot.isIdle).to.equal(true)
  })

  it('is signed from the front again each time that it was emptied', () => {
    const { slot, other } = shared()
    for (const texts of [['a', 'b'], ['c', 'd', 'e'], ['f']]) {
      put(slot, texts)
      other.signOpen(sign)
      expect(texts.map((_, i) => slot.takeBack(i))).to.deep.equal(texts.map(() => 'signed'))
      for (const [i, text] of texts.entries()) {
        expect(Buffer.from(slot.message(i)).toString()).to.equal(text)
        expect(isSigned(slot, i)).to.equal(true)
      }
      slot.empty()
    }
  })
})
