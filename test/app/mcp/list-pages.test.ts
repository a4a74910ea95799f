import { expect } from 'chai'
import { readPages } from 'svc-sdk/internal/mcp/lists'

const tool = (index: number, description = ''): object => ({ name: `t${index}`, description })
const tools = (count: number, description = ''): object[] =>
  Array.from({ length: count }, (_, index) => tool(index, description))

describe('the pages of a list', () => {
  it('are read up to ten thousand entries, also from one page of 200,000', async () => {
    const { entries, isCut } = await readPages('tools', async () => ({ tools: tools(200_000) }))
    expect(entries).to.have.length(10_000)
    expect(isCut).to.equal(true)
  })

  it('are read up to eight million characters', async () => {
    let pages = 0
    const { entries, isCut } = await readPages('tools', async () => {
      pages++
      return { tools: tools(100, 'x'.repeat(10_000)), nextCursor: 'more' }
    })
    expect(JSON.stringify(entries).length).to.be.within(8_000_000, 8_500_000)
    expect(pages).to.equal(9)
    expect(isCut).to.equal(true)
  })

  it('end with a cursor that is too long to be sent back', async () => {
    let pages = 0
    const { entries, isCut } = await readPages('tools', async () => {
      pages++
      return { tools: tools(1), nextCursor: 'c'.repeat(20_000) }
    })
    expect([pages, entries.length, isCut]).to.deep.equal([1, 1, true])
  })

  it('are all read if they are few', async () => {
    const { entries, isCut } = await readPages('tools', async ({ cursor = '0' }) => ({
      tools: tools(10),
      ...(Number(cursor) < 4 ? { nextCursor: String(Number(cursor) + 1) } : {}),
    }))
    expect([entries.length, isCut]).to.deep.equal([50, false])
  })
})
