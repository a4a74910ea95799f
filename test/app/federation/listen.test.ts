import { expect } from 'chai'
import { startTestGateway } from '../../support/gateway.js'
import { postMcp } from '../../support/mcp-post.js'
import { startSessionServer } from '../../support/tool-servers.js'

const revision = '2026-07-28'
const prefix = 'io.modelcontextprotocol/'

describe('subscriptions/listen at several servers', () => {
  it('names at most 1000 resources, because a server may get a request for each', async () => {
    await using notes = await startSessionServer('notes', () => undefined)
    await using gateway = await startTestGateway({ targets: { notes: notes.url } })
    const resourceSubscriptions = Array.from({ length: 1_001 }, (_, index) => `svc:notes/note://${index}`)
    const _meta = {
      [`${prefix}protocolVersion`]: revision,
      [`${prefix}clientInfo`]: { name: 'test', version: '1' },
      [`${prefix}clientCapabilities`]: {},
    }
    const params = { notifications: { resourceSubscriptions }, _meta }
    const response = await postMcp(
      `${gateway.url}/mcp`,
      { id: 1, method: 'subscriptions/listen', params },
      { 'mcp-protocol-version': revision, 'mcp-method': 'subscriptions/listen' },
    )
    expect(response.headers.get('content-type')).to.equal('application/json')
    expect(await response.json()).to.have.nested.property('error.code', -32602)
    const methods = gateway.records().map(({ mcp_method }) => mcp_method)
    expect(methods).to.deep.equal(['subscriptions/listen'])
  })
})
