// What servers ask their clients, with clients and servers of both kinds of revisions.
import { fileURLToPath } from 'node:url'
import { expect } from 'chai'
import { startTestGateway } from '../../support/gateway.js'
import { connectSdk2 } from '../../support/mcp-clients.js'
import { startRevisionServer } from '../../support/mcp-revision-server.js'

const everything = {
  command: process.execPath,
  args: [
    fileURLToPath(import.meta.resolve('@modelcontextprotocol/server-everything/dist/index.js')),
    'stdio',
  ],
  isolate: 'session' as const,
}

describe('a client that chooses its revision', function () {
  this.timeout(60_000)

  for (const [revisions, isAsked] of [
    ['all', false],
    ['handshake', true],
  ] as const) {
    it(`is ${isAsked ? '' : 'not '}asked what servers of the handshake ask: ${revisions} revisions are offered`, async () => {
      await using server = await startRevisionServer('2025-11-25')
      await using gateway = await startTestGateway({
        targets: { server: server.url, everything },
        server: { mcp: { revisions } },
      })
      for (const [endpoint, name] of [
        ['/mcp', 'server__test_elicitation'],
        ['/mcp/everything', 'trigger-elicitation-request'],
      ] as const) {
        await using client = await connectSdk2('auto', `${gateway.url}${endpoint}`)
        expect(client.sessionId() !== undefined, endpoint).to.equal(isAsked)
        const called = await client.requests.callTool({ name }).then(
          (result) => JSON.stringify(result),
          () => 'an error',
        )
        expect(called.includes('accept'), `${endpoint}: ${called}`).to.equal(isAsked)
      }
    })
  }
})
