import { expect } from 'chai'
import { pairwise } from './pairwise.js'

describe('a pairwise sample', () => {
  it('has every two values of two dimensions in a row, and few rows', () => {
    const dimensions = [
      [1, 2, 3],
      ['a', 'b', 'c', 'd'],
      [true, false],
      ['x', 'y', 'z'],
    ] as const
    const rows = pairwise(...dimensions)
    for (const [at, values] of dimensions.entries()) {
      for (const [by, others] of dimensions.entries()) {
        if (by <= at) continue
        const met = new Set(rows.map((row) => `${row[at]} ${row[by]}`))
        expect(met.size, `${at} and ${by}`).to.equal(values.length * others.length)
      }
    }
    expect(rows.length).to.be.within(12, 18)
  })
})
