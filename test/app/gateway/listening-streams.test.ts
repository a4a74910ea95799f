import { startToolServer } from '@svc/example-quick-start/tool-server'
import { expect } from 'chai'
import { startTestGateway } from '../../support/gateway.js'
import { postMcp } from '../../support/mcp-post.js'

const initialize = {
  jsonrpc: '2.0',
  id: 1,
  method: 'initialize',
  params: { protocolVersion: '2025-06-18', capabilities: {}, clientInfo: { name: 'test', version: '1.0.0' } },
}

/** Opens a session and the GET stream on which a client gets the messages of the server. */
async function listen(url: string): Promise<Response> {
  const opened = await postMcp(url, initialize)
  await opened.text()
  const session = opened.headers.get('mcp-session-id') ?? ''
  return fetch(url, { headers: { accept: 'text/event-stream', 'mcp-session-id': session } })
}

describe('a stream on which a client only listens', () => {
  it('is ended without truncation when the gateway closes, and does not delay the drain', async () => {
    const tools = await startToolServer()
    try {
      await using gateway = await startTestGateway({
        targets: { billing: tools.url },
        // This is longer than the test may take, so that waiting for the stream would fail.
        server: { drainMs: 60_000 },
      })
      const stream = await listen(`${gateway.url}/mcp/billing`)
      expect(stream.status).to.equal(200)

      await gateway.handle.close()

      expect(await stream.text()).to.equal(':\n\n')
      const { tool, status, policy } = gateway.records().at(-1) ?? {}
      expect([tool, status, policy?.decision]).to.deep.equal(['GET@1.0.0', 'ok', 'allow'])
      expect(gateway.log.lines.map(({ message }) => message)).not.to.include('response interrupted')
    } finally {
      await tools.close()
    }
  })
})
