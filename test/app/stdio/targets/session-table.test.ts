import { expect } from 'chai'
import type { TestGateway } from '../../../support/gateway.js'
import { TestIssuer } from '../../../support/issuer.js'
import { postMcp } from '../../../support/mcp-post.js'
import { ofSuite } from '../../../support/parts.js'
import { scriptedTarget, withStdio } from '../../../support/stdio-target.js'

const initialize = {
  jsonrpc: '2.0',
  id: 1,
  method: 'initialize',
  params: {
    protocolVersion: '2025-06-18',
    capabilities: {},
    clientInfo: { name: 'test', version: '1' },
  },
}

describe('the sessions of a server over stdio', () => {
  const issuer = ofSuite(() => TestIssuer.start())

  it('are limited for each caller; a new one ends an idle one, or is refused', async () => {
    const alice = `Bearer ${await issuer.sign()}`
    const bob = `Bearer ${await issuer.sign({ sub: 'bob', email: 'bob@example.com' })}`
    await withStdio(
      scriptedTarget('', { max_sessions_per_caller: 1 }),
      async (gateway) => {
        const first = await begin(gateway, alice)
        const stream = await open(gateway, alice, first.session)
        expect(stream.status).to.equal(200)
        expect(first.session).to.be.a('string')

        const refused = await begin(gateway, alice)
        expect(refused.response).to.have.nested.property('error.data.error', 'RATE_LIMITED')
        expect((await begin(gateway, bob)).session).to.be.a('string')

        await stream.body?.cancel()
        const second = await beginInTime(gateway, alice)
        expect((await open(gateway, alice, first.session)).status).to.equal(404)
        expect((await open(gateway, alice, second)).status).to.equal(200)
        expect(gateway.log.lines.filter(({ level }) => level === 'error')).to.deep.equal([])
      },
      { authn: { oidc: issuer.oidc } },
    )
  })
})

async function begin(
  gateway: TestGateway,
  authorization: string,
): Promise<{ session: string | null; response: unknown }> {
  const response = await postMcp(`${gateway.url}/mcp/files`, initialize, { authorization })
  return { session: response.headers.get('mcp-session-id'), response: await response.json() }
}

/** The gateway learns that a stream has closed when its connection does. */
async function beginInTime(gateway: TestGateway, authorization: string): Promise<string> {
  for (;;) {
    const { session } = await begin(gateway, authorization)
    if (session !== null) return session
  }
}

function open(gateway: TestGateway, authorization: string, session: string | null): Promise<Response> {
  const headers = { accept: 'text/event-stream', authorization, 'mcp-session-id': session ?? '' }
  return fetch(`${gateway.url}/mcp/files`, { headers })
}
