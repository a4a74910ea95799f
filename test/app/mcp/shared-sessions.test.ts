import { expect } from 'chai'
import type { GatewaySettings } from 'svc-sdk'
import { startTestGateway } from '../../support/gateway.js'
import { callEcho, json, result, serverOf } from '../../support/mcp-server.js'
import { ofSuite } from '../../support/parts.js'
import { startRedis, until } from '../../support/redis.js'

const headers = { 'content-type': 'application/json' }
const initialize = { jsonrpc: '2.0', id: 0, method: 'initialize', params: {} }

const post = (
  gateway: { url: string },
  body: unknown,
  more: Record<string, string> = {},
): Promise<Response> =>
  fetch(`${gateway.url}/mcp/files`, {
    method: 'POST',
    headers: { ...headers, ...more },
    body: JSON.stringify(body),
  })

/** A call at the second gateway in a session that began at the first. */
async function callElsewhere(settings: GatewaySettings): Promise<Response> {
  const { upstream } = await serverOf((message, response) => json(response, result(message)), 's1')
  await using _ = upstream
  const targets = { files: upstream.url }
  await using first = await startTestGateway({ targets, ...settings })
  await using second = await startTestGateway({ targets, ...settings })
  const begun = await post(first, initialize)
  await begun.text()
  const reply = await post(second, callEcho, {
    'mcp-session-id': String(begun.headers.get('mcp-session-id')),
  })
  return new Response(await reply.text(), { status: reply.status })
}

describe('MCP sessions of two gateways', () => {
  const redis = ofSuite(() => startRedis())

  for (const [store, settings] of [
    ['quotas', () => ({ quotas: { adapter: 'redis', redisUrl: redis.url } })],
    ['idempotency keys', () => ({ dedupe: { enabled: true, redisUrl: redis.url } })],
  ] as const) {
    it(`are the same if the gateways share the store of ${store}`, async () => {
      const response = await callElsewhere(settings())
      expect(response.status).to.equal(200)
      expect(await response.json()).to.have.nested.property('result.content')
    })
  }

  it('differ without a shared store or a key', async () => {
    expect((await callElsewhere({})).status).to.equal(404)
  })

  it('are refused while the shared store is down, and served when it is back', async () => {
    await using own = await startRedis()
    const { upstream } = await serverOf((message, response) => json(response, result(message)), 's1')
    await using _ = upstream
    await using gateway = await startTestGateway({
      targets: { files: upstream.url },
      quotas: { adapter: 'redis', redisUrl: own.url, failure_mode: 'open' },
    })
    await own.kill('SIGKILL')
    const refused = await post(gateway, initialize)
    expect(await refused.json()).to.have.nested.property('error.data.error', 'STORE_UNAVAILABLE')
    await own.restart()
    await until(async () => {
      const begun = await post(gateway, initialize)
      await begun.text()
      return /^svc\.[A-Za-z0-9_-]+$/.test(String(begun.headers.get('mcp-session-id')))
    })
  })
})
