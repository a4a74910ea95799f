import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect } from 'chai'
import type { GatewaySettings } from 'svc-sdk'
import { startTestGateway, type TestGateway } from '../../support/gateway.js'
import { callEcho, initialize, json, result, serverOf } from '../../support/mcp-server.js'
import { until } from '../../support/stdio-target.js'
import { startUpstream, type TestUpstream, type UpstreamCall } from '../../support/upstream.js'

const env = { A: 'key-a', B: 'key-b' }
type Broker = NonNullable<GatewaySettings['brokers']>[string]
const inject = { header: 'x-api-key', format: 'raw' } as const
const pool: Broker = { type: 'vendor_key_pool', key_refs: ['env:A', 'env:B'], inject }
const fixed: Broker = { type: 'static', key_refs: ['env:A'], inject }

async function gatewayTo(
  upstream: TestUpstream,
  broker: Broker,
  more: Partial<GatewaySettings> = {},
): Promise<TestGateway> {
  return startTestGateway({ targets: { files: upstream.url }, brokers: { files: broker }, env, ...more })
}

const keysOf = (calls: readonly UpstreamCall[]) => calls.map(({ headers }) => headers['x-api-key'])

/** The status for a call: that of its key if the key is refused. */
const refusing = (refused: Record<string, number>) => (call: UpstreamCall) =>
  refused[String(call.headers['x-api-key'])] ?? 200

function upstreamThat(statusOf: (call: UpstreamCall) => number): Promise<TestUpstream> {
  return startUpstream((call, response) => {
    const status = statusOf(call)
    const headers = { 'content-type': 'application/json', ...(status === 429 ? { 'retry-after': '30' } : {}) }
    response.writeHead(status, headers).end(JSON.stringify({ status }))
  })
}

describe('brokers: in a gateway, over the invoke protocol', () => {
  it('send the credential, and never what the caller put under that name or its authorization', async () => {
    await using upstream = await upstreamThat(() => 200)
    await using gateway = await gatewayTo(upstream, {
      ...fixed,
      inject: { header: 'Authorization', format: 'bearer' },
    })
    await using other = await gatewayTo(upstream, fixed)
    expect((await other.invoke('/mcp/files/read@1', {}, { 'X-API-Key': "the caller's" })).status).to.equal(
      200,
    )
    expect((await gateway.invoke('/mcp/files/read@1', {}, { cookie: 'a=b' })).status).to.equal(200)
    const [first, second] = upstream.calls
    expect(first?.headers).to.include({ 'x-api-key': 'key-a' }).and.not.have.property('authorization')
    expect(second?.headers)
      .to.include({ authorization: 'Bearer key-a' })
      .and.not.have.any.keys('cookie', 'x-api-key')
  })

  it('do not send a call without its credential, and record it', async () => {
    await using upstream = await upstreamThat(() => 200)
    await using gateway = await gatewayTo(upstream, { ...fixed, key_refs: ['env:MISSING'] })
    const response = await gateway.invoke('/mcp/files/read@1')
    expect(response.status).to.equal(502)
    expect(await response.json()).to.include({
      error: 'BROKER_UNAVAILABLE',
      message: 'The credential for server "files" is not available: no key is usable.',
      sent: false,
    })
    expect(upstream.calls).to.deep.equal([])
    expect(gateway.records()).to.have.length(1)
    expect(gateway.records()[0]).to.include({ error: 'BROKER_UNAVAILABLE', status: 'error', retries: 0 })
  })

  it('send what a command of the policy prints, and run it again once the upstream refuses that', async () => {
    await using upstream = await upstreamThat(refusing({ 'key-1': 401 }))
    const directory = mkdtempSync(join(tmpdir(), 'svc-test-'))
    after(() => rmSync(directory, { recursive: true, force: true }))
    const file = join(directory, 'key')
    writeFileSync(file, 'key-1')
    const args = ['-p', `require('fs').readFileSync(${JSON.stringify(file)}, 'utf8')`]
    await using gateway = await gatewayTo(
      upstream,
      { ...fixed, key_refs: ['command:vault'] },
      { secrets: { vault: { command: process.execPath, args } } },
    )
    expect((await gateway.invoke('/mcp/files/read@1')).status).to.equal(401)
    writeFileSync(file, 'key-2')
    await until(async () => (await gateway.invoke('/mcp/files/read@1')).status === 200)
    expect(keysOf(upstream.calls).at(-1)).to.equal('key-2')
  })

  it('repeat a refused call with the next key, and the record counts it', async () => {
    await using upstream = await upstreamThat(refusing({ 'key-a': 429 }))
    await using gateway = await gatewayTo(upstream, pool)
    for (const wanted of [200, 200]) {
      expect((await gateway.invoke('/mcp/files/read@1', { path: 'a' })).status).to.equal(wanted)
    }
    expect(keysOf(upstream.calls)).to.deep.equal(['key-a', 'key-b', 'key-b'])
    expect(new Set(upstream.calls.map(({ body }) => body))).to.deep.equal(new Set(['{"path":"a"}']))
    expect(gateway.records().map(({ retries, status }) => ({ retries, status }))).to.deep.equal([
      { retries: 1, status: 'ok' },
      { retries: 0, status: 'ok' },
    ])
  })

  it('pass the second response on when it is a refusal too, without a third attempt', async () => {
    await using upstream = await upstreamThat(() => 429)
    await using gateway = await gatewayTo(
      upstream,
      { ...pool, key_refs: ['env:A', 'env:B', 'env:C'] },
      {
        env: { ...env, C: 'key-c' },
      },
    )
    const response = await gateway.invoke('/mcp/files/read@1')
    expect(response.status).to.equal(429)
    expect(response.headers.get('retry-after')).to.equal('30')
    expect(keysOf(upstream.calls)).to.deep.equal(['key-a', 'key-b'])
    expect(gateway.records()[0]).to.include({ error: 'UPSTREAM', retries: 1 })
  })

  it('do not call the upstream while every key is in cooldown', async () => {
    await using upstream = await upstreamThat(() => 401)
    await using gateway = await gatewayTo(upstream, pool)
    expect((await gateway.invoke('/mcp/files/read@1')).status).to.equal(401)
    expect((await gateway.invoke('/mcp/files/read@1')).status).to.equal(502)
    expect(upstream.calls).to.have.length(2)
  })

  it('report the call as sent when the repetition cannot connect', async () => {
    // Listens for one call only.
    const server = createServer((request, response) => {
      server.close()
      request.resume()
      response.writeHead(429, { connection: 'close' }).end()
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
    await using gateway = await startTestGateway({ targets: { files: url }, brokers: { files: pool }, env })
    const response = await gateway.invoke('/mcp/files/read@1')
    expect(response.status).to.equal(502)
    const body = (await response.json()) as { error: string; sent: unknown }
    expect(body.error).to.equal('UPSTREAM_UNREACHABLE')
    expect(body.sent).to.equal(true)
    expect(gateway.records()[0]).to.include({ retries: 1 })
  })

  it('do not charge a daily count for a call that is not sent', async () => {
    await using upstream = await upstreamThat(() => 200)
    const entitlements = {
      default_plan: 'free',
      plans: { free: { calls_per_day: 5 } },
      tenants: { acme: { plan: 'free', allowlist: ['*'] } },
    }
    const brokers = { files: { ...fixed, key_refs: ['env:MISSING'] }, bills: fixed }
    await using gateway = await startTestGateway({
      targets: { files: upstream.url, bills: upstream.url },
      brokers,
      env,
      entitlements,
    })
    const left = async (path: string) => (await gateway.invoke(path)).headers.get('x-quota-remaining')
    expect([await left('/mcp/files/read@1'), await left('/mcp/files/read@1')]).to.deep.equal(['5', '5'])
    expect([await left('/mcp/bills/read@1'), await left('/mcp/bills/read@1')]).to.deep.equal(['4', '3'])
  })
})

describe('brokers: in a gateway, over MCP', () => {
  const post = (gateway: TestGateway, body: object, headers: Record<string, string> = {}) =>
    fetch(`${gateway.url}/mcp/files`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...headers },
      body: JSON.stringify(body),
    })

  it('send the credential with the call and with the version probe of the gateway', async () => {
    const { upstream } = await serverOf((message, response) => json(response, result(message)))
    await using server = upstream
    await using gateway = await gatewayTo(server, fixed)
    const response = await post(gateway, callEcho, { 'x-api-key': "the caller's" })
    expect(await response.json()).to.have.nested.property('result.content')
    expect(server.calls.map(({ body }) => (JSON.parse(body) as { method: string }).method)).to.deep.equal([
      'initialize',
      'tools/call',
    ])
    expect(keysOf(server.calls)).to.deep.equal(['key-a', 'key-a'])
    expect(gateway.records()[0]?.tool).to.equal('echo@2.0.0')
  })

  it('repeat a refused call with the next key', async () => {
    const { upstream } = await serverOf((message, response, call) => {
      if (call.headers['x-api-key'] === 'key-b') json(response, { error: 'slow down' }, 429)
      else json(response, result(message))
    })
    await using server = upstream
    await using gateway = await gatewayTo(server, pool)
    // The version probe used the first key.
    const response = await post(gateway, callEcho)
    expect(await response.json()).to.have.nested.property('result.content')
    expect(keysOf(server.calls)).to.deep.equal(['key-a', 'key-b', 'key-a'])
    expect(gateway.records()[0]).to.include({ retries: 1, status: 'ok' })
  })

  it('put a key into cooldown that was refused for the version probe', async () => {
    await using server = await startUpstream((call, response) => {
      const message = JSON.parse(call.body) as Record<string, unknown>
      if (call.headers['x-api-key'] === 'key-a') return json(response, {}, 401)
      const serverInfo = { name: 's', version: '2.0.0' }
      const shaken = { protocolVersion: '2025-11-25', capabilities: {}, serverInfo }
      json(response, result(message, message['method'] === 'initialize' ? shaken : undefined))
    })
    await using gateway = await gatewayTo(server, pool)
    await post(gateway, callEcho)
    expect(keysOf(server.calls)).to.deep.equal(['key-a', 'key-b', 'key-b'])
    expect(gateway.records()[0]?.tool).to.equal('echo@2.0.0')
  })

  it('refuse a call without a credential as a JSON-RPC error', async () => {
    const { upstream } = await serverOf((message, response) => json(response, result(message)))
    await using server = upstream
    await using gateway = await gatewayTo(server, { ...fixed, key_refs: ['env:MISSING'] })
    for (const message of [callEcho, initialize]) {
      const { error } = (await (await post(gateway, message)).json()) as {
        error: { code: number; data: { error: string; sent: boolean } }
      }
      expect(error.code).to.equal(502)
      expect(error.data).to.include({ error: 'BROKER_UNAVAILABLE', sent: false })
    }
    expect(server.calls).to.deep.equal([])
    expect(gateway.records().map(({ error }) => error)).to.deep.equal([
      'BROKER_UNAVAILABLE',
      'BROKER_UNAVAILABLE',
    ])
  })

  it('serve an MCP session with its first key', async () => {
    await using server = await startUpstream((call, response) => {
      const message = JSON.parse(call.body) as Record<string, unknown>
      if (message['method'] === 'initialize') {
        const serverInfo = { name: 's', version: '2.0.0' }
        const session = {
          'content-type': 'application/json',
          'mcp-session-id': `s-${String(call.headers['x-api-key'])}`,
        }
        const shaken = { protocolVersion: '2025-11-25', capabilities: {}, serverInfo }
        response.writeHead(200, session).end(JSON.stringify(result(message, shaken)))
      } else json(response, result(message))
    })
    await using gateway = await gatewayTo(server, pool)
    const begun = [await post(gateway, initialize), await post(gateway, initialize)]
    const sessions = begun.map(({ headers }) => headers.get('mcp-session-id') ?? '')
    expect(keysOf(server.calls)).to.deep.equal(['key-a', 'key-b'])
    server.calls.splice(0)
    for (const which of [1, 1, 0, 1]) {
      await post(gateway, callEcho, { 'mcp-session-id': sessions[which] ?? '' })
    }
    expect(keysOf(server.calls)).to.deep.equal(['key-b', 'key-b', 'key-a', 'key-b'])
  })
})
