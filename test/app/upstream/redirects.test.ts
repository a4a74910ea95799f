// Only the policy decides to which servers calls go: an upstream cannot redirect the gateway.
import { expect } from 'chai'
import { startTestGateway } from '../../support/gateway.js'
import { startUpstream } from '../../support/upstream.js'

describe('a redirect by an upstream', () => {
  for (const status of [301, 302, 303, 307, 308]) {
    it(`with ${status} is not followed, over either protocol`, async () => {
      await using inside = await startUpstream()
      await using upstream = await startUpstream((_call, response) => {
        response.writeHead(status, { location: `${inside.url}/latest/meta-data` }).end()
      })
      await using gateway = await startTestGateway({ targets: { files: upstream.url } })
      const invoked = await gateway.invoke('/mcp/files/read@1')
      expect(invoked.status).to.equal(status)
      // The caller does not learn the target of the redirect either.
      expect(invoked.headers.has('location')).to.equal(false)
      const ping = { jsonrpc: '2.0', id: 1, method: 'ping' }
      const asked = await gateway.invoke('/mcp/files', ping, {
        accept: 'application/json, text/event-stream',
      })
      expect(asked.headers.has('location')).to.equal(false)
      const tool = { ...ping, method: 'tools/call', params: { name: 'read', arguments: {} } }
      await gateway.invoke('/mcp/files', tool, { accept: 'application/json, text/event-stream' })
      expect(inside.calls).to.have.length(0)
      expect(upstream.calls.length).to.be.at.least(2)
    })
  }

  it('is not followed to an MCP server by calls of the invoke protocol', async () => {
    await using inside = await startUpstream()
    await using upstream = await startUpstream((_call, response) => {
      response.writeHead(307, { location: `${inside.url}/mcp` }).end()
    })
    await using gateway = await startTestGateway({ targets: { files: `mcp+${upstream.url}/mcp` } })
    const response = await gateway.invoke('/mcp/files/read@1')
    expect(response.status).to.be.at.least(400)
    expect(response.headers.has('location')).to.equal(false)
    expect(inside.calls).to.have.length(0)
    expect(upstream.calls).not.to.have.length(0)
  })

  it('to a path in the name of a tool does not leave the target', async () => {
    await using upstream = await startUpstream()
    await using gateway = await startTestGateway({ targets: { files: `${upstream.url}/base` } })
    for (const name of ['%2F%2Fevil.example%2Fx', '%40evil.example', '%3Fq', '%23f', '%5c%5cevil.example']) {
      await gateway.invoke(`/mcp/files/${name}@1`)
    }
    for (const { path } of upstream.calls) expect(path).to.match(/^\/base\/invoke\/[^/?#]+@1$/)
    expect(upstream.calls).not.to.have.length(0)
  })
})
