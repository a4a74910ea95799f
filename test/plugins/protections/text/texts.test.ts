import { TextScanner } from '@svc/plugin-protections/internal/text/scan'
import { TextSearch } from '@svc/plugin-protections/internal/text/texts'
import { expect } from 'chai'

const searchOf = () => new TextSearch(new TextScanner('result'), undefined, true)

describe('the search in a value', () => {
  it('returns the same value if nothing is removed', async () => {
    const value = { a: [1, 'text', { b: null, c: '{"d": [1, 2]}' }] }
    expect(await searchOf().value(value)).to.equal(value)
  })

  it('lets other work run during a large value', async () => {
    const value = Array.from({ length: 50_000 }, (_, index) => `row ${index}`)
    let turns = 0
    const counting = setInterval(() => {
      turns += 1
    }, 0)
    await searchOf().value(value)
    clearInterval(counting)
    expect(turns).to.be.greaterThan(2)
  })

  it('removes what it cannot read: over 4 MiB of text, 500,000 values, 512 levels', async () => {
    const deep = JSON.parse(`${'['.repeat(600)}"x"${']'.repeat(600)}`) as unknown
    for (const value of [['a'.repeat(5_000_000)], Array.from({ length: 500_100 }, () => [1]), deep]) {
      const search = searchOf()
      expect(await search.value(value)).not.to.equal(value)
      expect(search.isIncomplete).to.equal(true)
    }
  })
})
