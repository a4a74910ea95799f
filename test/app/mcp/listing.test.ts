import { expect } from 'chai'
import { filterListing, isListing } from 'svc-sdk/internal/mcp/lists'

const only =
  (...allowed: string[]) =>
  (kind: string, name: string): boolean =>
    allowed.includes(`${kind} ${name}`)

describe('a list', () => {
  it('is recognised by its shape, also if a result has several', () => {
    const result = {
      prompts: [{ name: 'p' }, { name: 'q' }],
      resources: [{ uri: 'a://1' }, { uri: 'a://2' }],
      resourceTemplates: [{ uriTemplate: 'a://{x}' }, { uriTemplate: 'b://{x}' }],
    }
    expect(filterListing(result, only('prompt p', 'resource a://2', 'resource a://{x}'))).to.deep.equal({
      prompts: [{ name: 'p' }],
      resources: [{ uri: 'a://2' }],
      resourceTemplates: [{ uriTemplate: 'a://{x}' }],
    })
  })

  it('does not keep entries that cannot be judged', () => {
    const result = { tools: [{ title: 'nameless' }, 'echo', null, { name: 7 }, { name: 'echo' }] }
    expect(filterListing(result, () => true)).to.deep.equal({ tools: [{ name: 'echo' }] })
  })

  it('does not include capabilities and tool results', () => {
    expect(isListing({ capabilities: { tools: {} }, tools: {} })).to.equal(false)
    expect(isListing({ content: [] })).to.equal(false)
    expect(isListing(null)).to.equal(false)
  })
})
