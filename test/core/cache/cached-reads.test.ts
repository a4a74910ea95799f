import { CachedReads } from '@svc/core/store'
import { expect } from 'chai'
import { rejectionOf } from '../../support/rejection.js'

class Source {
  now = 0
  count = 0
  fails = false
  readonly reads = new CachedReads<number>({ monotonic: () => this.now }, 2)

  of(key = 'a', failureMs = 0): Promise<number> {
    const read = async () => {
      this.count++
      if (this.fails) throw new Error('down')
      return this.count
    }
    return this.reads.of(key, { read, keptMs: () => 10, failureMs })
  }
}

describe('a value that is read once and kept for a time', () => {
  it('is read once for all who ask at the same time, and again after its time', async () => {
    const source = new Source()
    expect(await Promise.all([source.of(), source.of()])).to.deep.equal([1, 1])
    source.now = 9
    expect(await source.of()).to.equal(1)
    source.now = 10
    expect(await source.of()).to.equal(2)
  })

  it('is read again if it expires while it is being read', async () => {
    const source = new Source()
    const first = source.of()
    source.reads.expire('a')
    expect(await Promise.all([first, source.of()])).to.deep.equal([1, 2])
  })

  it('is read again after a failure, at once only for those who accept no failure', async () => {
    const source = new Source()
    source.fails = true
    expect(await rejectionOf(source.of('a', 10))).to.have.property('message', 'down')
    source.fails = false
    expect(await rejectionOf(source.of('a', 10))).to.have.property('message', 'down')
    expect(await source.of()).to.equal(2)
  })

  it('is dropped with all whose time is over, and not while it is being read', async () => {
    const source = new Source()
    await source.of('a')
    source.now = 10
    const reading = source.of('b')
    source.reads.dropExpired()
    expect([source.reads.last('a'), await reading]).to.deep.equal([undefined, 2])
    source.reads.dropExpired()
    expect(await source.reads.all()).to.deep.equal([2])
  })

  it('is not dropped if it was replaced, and the one used longest ago makes room', async () => {
    const source = new Source()
    const first = await source.of()
    source.reads.expire('a')
    const second = source.of()
    source.reads.drop('a', first)
    expect(await second).to.equal(2)
    await source.of('b')
    await source.of()
    await source.of('c')
    expect([source.reads.last('a'), source.reads.last('b')]).to.deep.equal([2, undefined])
    expect(await source.reads.all()).to.deep.equal([2, 4])
  })
})
