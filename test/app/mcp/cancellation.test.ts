import type { ServerResponse } from 'node:http'
import { expect } from 'chai'
import type { GatewaySettings } from 'svc-sdk'
import { startTestGateway, type TestGateway } from '../../support/gateway.js'
import { TestIssuer } from '../../support/issuer.js'
import { callEcho, event, type HttpResponse, initialize, serverOf } from '../../support/mcp-server.js'
import { startRedis } from '../../support/redis.js'

const progress = event({ jsonrpc: '2.0', method: 'notifications/progress', params: {} })

/** Gateways in front of a server that begins streams and leaves them open. */
async function withGateways(
  settings: readonly GatewaySettings[],
  use: (gateways: readonly TestGateway[], streams: readonly ServerResponse[]) => Promise<void>,
): Promise<void> {
  const streams: ServerResponse[] = []
  const respond: HttpResponse = (message, response) => {
    if (message['method'] !== 'tools/call') {
      response.writeHead(202).end()
      return
    }
    streams.push(response)
    response.writeHead(200, { 'content-type': 'text/event-stream' }).write(progress)
  }
  const { upstream } = await serverOf(respond, 's1')
  await using _ = upstream
  const gateways: TestGateway[] = []
  try {
    for (const each of settings) {
      gateways.push(await startTestGateway({ targets: { files: upstream.url }, ...each }))
    }
    await use(gateways, streams)
  } finally {
    for (const gateway of gateways) await gateway[Symbol.asyncDispose]()
  }
}

const post = (
  gateway: TestGateway | undefined,
  message: object,
  headers: Record<string, string> = {},
): Promise<Response> =>
  fetch(`${gateway?.url}/mcp/files`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify(message),
  })

async function cancel(gateway: TestGateway | undefined, headers: Record<string, string> = {}): Promise<void> {
  const params = { requestId: callEcho.id }
  await (await post(gateway, { jsonrpc: '2.0', method: 'notifications/cancelled', params }, headers)).text()
}

const codesOf = (gateway: TestGateway | undefined) =>
  gateway?.records().flatMap(({ mcp_method, error }) => (mcp_method === 'tools/call' ? [error] : []))

describe('a cancellation over MCP', function () {
  this.timeout(60_000)

  it('without a session ends the only call of the caller with this id', () =>
    withGateways([{ server: { mcp: { abandoned_ms: 50 } } }], async ([gateway]) => {
      const response = await post(gateway, callEcho)
      await cancel(gateway)
      await response.text()
      expect(codesOf(gateway)).to.deep.equal(['CANCELLED'])
    }))

  it('without a session ends none of several calls with this id', () =>
    withGateways([{}], async ([gateway], streams) => {
      const responses = [await post(gateway, callEcho), await post(gateway, callEcho)]
      await cancel(gateway)
      for (const stream of streams) stream.end()
      for (const response of responses) await response.text()
      expect(codesOf(gateway)).to.deep.equal(['UPSTREAM_UNREACHABLE', 'UPSTREAM_UNREACHABLE'])
    }))

  it('ends one call of its session, if it comes before the call and the client uses the id again', () =>
    withGateways([{}], async ([gateway], streams) => {
      const begun = await post(gateway, initialize)
      await begun.text()
      const headers = { 'mcp-session-id': String(begun.headers.get('mcp-session-id')) }
      await cancel(gateway, headers)
      await (await post(gateway, callEcho, headers)).text()
      const second = await post(gateway, callEcho, headers)
      streams[0]?.end()
      await second.text()
      expect(codesOf(gateway)).to.deep.equal(['CANCELLED', 'UPSTREAM_UNREACHABLE'])
    }))

  it('ends a call in its session at another gateway', async () => {
    await using redis = await startRedis()
    const settings: GatewaySettings = {
      quotas: { adapter: 'redis', redisUrl: redis.url },
      server: { mcp: { abandoned_ms: 50 } },
    }
    await withGateways([settings, settings], async ([first, second]) => {
      const begun = await post(first, initialize)
      await begun.text()
      const headers = { 'mcp-session-id': String(begun.headers.get('mcp-session-id')) }
      const response = await post(first, callEcho, headers)
      await cancel(second, headers)
      await response.text()
      expect(codesOf(first)).to.deep.equal(['CANCELLED'])
    })
  })

  it('at another gateway does not end the call of another caller with the same session id', async () => {
    await using redis = await startRedis()
    await using issuer = await TestIssuer.start()
    const settings: GatewaySettings = {
      authn: { oidc: issuer.oidc },
      quotas: { adapter: 'redis', redisUrl: redis.url },
      server: { mcp: { abandoned_ms: 50 } },
    }
    await withGateways([settings, settings], async ([first, second], streams) => {
      const call = async (sub: string) => {
        const authorization = `Bearer ${await issuer.sign({ sub })}`
        const begun = await post(first, initialize, { authorization })
        await begun.text()
        const headers = { authorization, 'mcp-session-id': String(begun.headers.get('mcp-session-id')) }
        return { headers, response: await post(first, callEcho, headers) }
      }
      const ada = await call('ada')
      const bob = await call('bob')
      await cancel(second, bob.headers)
      await bob.response.text()
      streams[0]?.end()
      await ada.response.text()
      expect(codesOf(first)).to.deep.equal(['CANCELLED', 'UPSTREAM_UNREACHABLE'])
    })
  })
})
