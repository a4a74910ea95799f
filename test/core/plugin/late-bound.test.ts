import { lateBound } from '@svc/core'
import { expect } from 'chai'
import sinon from 'sinon'

interface Store {
  readonly size: number
  get(key: string): string | undefined
  close?(): void
}

const members = { size: 'property', get: 'method', close: 'property' } as const

class Memory implements Store {
  #values = new Map([['a', '1']])

  get size(): number {
    return this.#values.size
  }

  get(key: string): string | undefined {
    return this.#values.get(key)
  }
}

describe('a late-bound object, which forwards to one that opens later', () => {
  it('uses what runs at the time of the use, with its private members', () => {
    let running: Store | undefined
    const store = lateBound('the store', () => running, members)
    running = new Memory()
    expect([store.size, store.get('a'), store.close]).to.deep.equal([1, '1', undefined])
    running = { size: 0, get: () => undefined }
    expect([store.size, store.get('a')]).to.deep.equal([0, undefined])
  })

  it('says which part is not open', () => {
    const store = lateBound<Store>('the store', () => undefined, members)
    const message = 'the store is not open: it can be used once the pipeline has started'
    expect(() => store.get('a')).to.throw(message)
    expect(() => store.size).to.throw(message)
  })

  it('can be awaited before it is open, and stubbed', async () => {
    const store = lateBound<Store>('the store', () => undefined, members)
    expect(await store).to.equal(store)
    sinon.stub(store, 'get').returns('stubbed')
    expect(store.get('a')).to.equal('stubbed')
  })
})
