import { expect } from 'chai'
import { allChanges, fulfillable, isWanted } from 'svc-sdk/internal/mcp/change-notifications'

const capabilities = { tools: { listChanged: true }, prompts: {}, resources: { subscribe: true } }
const server = { capabilities, serverInfo: {} }
const updated = (uri: unknown) => ({ method: 'notifications/resources/updated', params: { uri } })

describe('a filter of changes', () => {
  it('has only changes that the server can send', () => {
    const wanted = { toolsListChanged: true, promptsListChanged: true, resourcesListChanged: true }
    expect(fulfillable(server, wanted, ['file:///a'])).to.deep.equal({
      toolsListChanged: true,
      resourceSubscriptions: ['file:///a'],
    })
    expect(fulfillable({ ...server, capabilities: {} }, wanted, ['file:///a'])).to.deep.equal({})
  })

  const filter = { ...allChanges, resourceSubscriptions: ['file:///a'] }
  const rows: readonly (readonly [string, object, boolean])[] = [
    ['a changed list', { method: 'notifications/tools/list_changed' }, true],
    ['the resource', updated('file:///a'), true],
    ['a part of the resource', updated('file:///a/b'), true],
    ['a resource with a longer name', updated('file:///ab'), false],
    ['an update that names nothing', updated(undefined), false],
    ['a log message', { method: 'notifications/message' }, false],
  ]
  for (const [what, message, isPassed] of rows) {
    it(`${isPassed ? 'passes' : 'keeps back'} ${what}`, () => {
      expect(isWanted(message as Record<string, unknown>, filter)).to.equal(isPassed)
    })
  }
})
