import { BoundedMap } from '@svc/core/store'
import { expect } from 'chai'

describe('a bounded map', () => {
  it('removes the entry that was set longest ago, also if another was set again', () => {
    const map = new BoundedMap<string, number>(2)
    map.set('a', 1).set('b', 2).set('a', 3).set('c', 4)
    expect([...map]).to.deep.equal([
      ['a', 3],
      ['c', 4],
    ])
  })

  it('keeps nothing if it may have no entry', () => {
    expect(new BoundedMap<string, number>(0).set('a', 1).size).to.equal(0)
  })
})
