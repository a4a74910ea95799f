// Web pages as attackers: names bound to the gateway's address (DNS rebinding), requests from other origins.
import { expect } from 'chai'
import type { GatewaySettings } from 'svc-sdk'
import { startTestGateway, type TestGateway } from '../../../support/gateway.js'
import { dial, readToEnd } from '../../../support/raw.js'
import { startUpstream } from '../../../support/upstream.js'

type ServerOptions = NonNullable<GatewaySettings['server']>

async function withGateway(server: ServerOptions, body: (gateway: TestGateway) => Promise<void>) {
  await using upstream = await startUpstream()
  await using gateway = await startTestGateway({ targets: { files: upstream.url }, server })
  await body(gateway)
}

/** Connects to the gateway's address, whatever the Host header names. */
async function statusFor(
  gateway: TestGateway,
  host: string,
  target = '/readyz',
): Promise<number | undefined> {
  const { port } = new URL(gateway.url)
  const socket = await dial(`http://127.0.0.1:${port}`)
  socket.write(`GET ${target} HTTP/1.1\r\nhost: ${host}\r\nconnection: close\r\n\r\n`)
  const { statuses } = await readToEnd(socket)
  return statuses[0]
}

describe('the Host header of a request', () => {
  const cases: readonly (readonly [
    title: string,
    server: ServerOptions,
    known: readonly string[],
    unknown: readonly string[],
  ])[] = [
    [
      'names this machine, if the gateway listens on loopback',
      {},
      ['127.0.0.1', '127.0.0.1:8787', 'localhost', 'LOCALHOST:1', '127.1.2.3', '[::1]', '[::1]:80'],
      [
        'evil.example',
        'localhost.evil.example',
        '127.0.0.1.evil.example',
        'evil.example:8787',
        '0.0.0.0',
        '10.0.0.1',
        '[::ffff:10.0.0.1]',
        '169.254.169.254',
        'evil-localhost',
        '127.0.0.1evil',
      ],
    ],
    [
      'names this machine or a listed host, if the gateway on loopback lists hosts',
      { allowedHosts: ['gateway.internal', '*.example.com', 'other.example:8443'] },
      [
        'localhost',
        'gateway.internal',
        'Gateway.Internal:9',
        'a.example.com',
        'b.a.example.com:1',
        'other.example:8443',
      ],
      [
        'example.com',
        'evilexample.com',
        'gateway.internal.evil.example',
        'other.example',
        'other.example:80',
      ],
    ],
    [
      'is an address or a listed host, if the gateway listens on a network',
      { host: '0.0.0.0', allowedHosts: ['gateway.internal'] },
      ['127.0.0.1', '10.0.0.1:80', '[2001:db8::1]', 'localhost', 'gateway.internal'],
      ['evil.example', '1.2.3.4.evil.example', 'gateway'],
    ],
    [
      'names the public URL or this machine, if the gateway is behind a proxy',
      { publicUrl: 'https://Mcp.Example.com:8443/base' },
      ['mcp.example.com', 'mcp.example.com:8443', 'mcp.example.com:8787', 'localhost'],
      ['example.com', 'a.mcp.example.com'],
    ],
    [
      'may be any, if the gateway allows all hosts with an asterisk',
      { allowedHosts: ['*'] },
      ['evil.example', 'localhost', '10.0.0.1'],
      [],
    ],
  ]
  for (const [title, server, known, unknown] of cases) {
    it(title, () =>
      withGateway(server, async (gateway) => {
        for (const host of known) expect(await statusFor(gateway, host), host).to.equal(200)
        for (const host of unknown) expect(await statusFor(gateway, host), host).to.equal(400)
        // An accepted host before does not change the refusal.
        for (const host of unknown) expect(await statusFor(gateway, host), host).to.equal(400)
      }),
    )
  }

  it('is checked on every path, before anything else', () =>
    withGateway({}, async (gateway) => {
      for (const path of ['/healthz', '/readyz', '/mcp/files', '/escalations/1', '/nosuch']) {
        expect(await statusFor(gateway, 'evil.example', path), path).to.equal(400)
      }
    }))

  it('is checked against the hosts of a reloaded policy', () =>
    withGateway({}, async (gateway) => {
      expect(await statusFor(gateway, 'gateway.internal')).to.equal(400)
      await gateway.handle.reload({ server: { allowedHosts: ['gateway.internal'] } })
      expect(await statusFor(gateway, 'gateway.internal')).to.equal(200)
      await gateway.handle.reload({})
      expect(await statusFor(gateway, 'gateway.internal')).to.equal(400)
    }))

  it('is named, with the policy key to set, in the refusal', () =>
    withGateway({}, async (gateway) => {
      const response = await gateway.invoke('/mcp/files/read@1', {}, { host: 'gateway.internal' })
      expect(response.status).to.equal(400)
      const { message } = (await response.json()) as { message: string }
      expect(message).to.include('gateway.internal').and.include('server.allowedHosts')
    }))
})

describe('a web page', () => {
  const local = 'http://localhost:6274'
  const evil = 'https://evil.example'
  const app = 'https://app.example.com'
  const call = async (gateway: TestGateway, headers: Record<string, string>) => {
    const response = await gateway.invoke('/mcp/files/read@1', {}, headers)
    return response.status
  }

  it('of this machine may call a gateway on loopback', () =>
    withGateway({}, async (gateway) => {
      expect(await call(gateway, { origin: local })).to.equal(200)
    }))

  it('of this machine may not call a gateway that listens on all addresses', () =>
    withGateway({ host: '0.0.0.0' }, async (gateway) => {
      expect(await call(gateway, { origin: local })).to.equal(403)
    }))

  it('of another origin may not call without a token, however the origin is written', () =>
    withGateway({}, async (gateway) => {
      const origins = [
        evil,
        'null',
        '',
        'http://localhost.evil.example',
        'http://127.0.0.1@evil.example',
        'evil',
      ]
      for (const origin of origins) expect(await call(gateway, { origin }), origin).to.equal(403)
      const records = gateway.records().map(({ error, policy }) => [error, policy.decision])
      expect(records).to.deep.equal(origins.map(() => ['TOOL_NOT_ALLOWED', 'deny']))
    }))

  it('of the origin of the public URL may call', () =>
    withGateway({ publicUrl: 'https://mcp.example.com/base' }, async (gateway) => {
      expect(await call(gateway, { origin: 'https://mcp.example.com' })).to.equal(200)
      expect(await call(gateway, { origin: 'http://mcp.example.com' })).to.equal(403)
    }))

  it('of a listed origin may call, and one of another origin may not', () =>
    withGateway({ allowedOrigins: [app] }, async (gateway) => {
      expect(await call(gateway, { origin: app })).to.equal(200)
      expect(await call(gateway, { origin: `${app}:8443` })).to.equal(403)
      expect(await call(gateway, { origin: evil })).to.equal(403)
      expect(await call(gateway, {})).to.equal(200)
    }))

  const preflight = (gateway: TestGateway, origin: string): Promise<Response> =>
    fetch(`${gateway.url}/mcp/files`, {
      method: 'OPTIONS',
      headers: {
        origin,
        'access-control-request-method': 'POST',
        'access-control-request-headers': 'authorization',
      },
    })

  for (const [of, origin] of [
    ['of a listed origin', app],
    ['of this machine', local],
  ] as const)
    it(`${of} gets CORS headers in the preflight and in each response`, () =>
      withGateway({ allowedOrigins: [app] }, async (gateway) => {
        const asked = await preflight(gateway, origin)
        expect(asked.status).to.equal(204)
        expect(Object.fromEntries(asked.headers)).to.include({
          'access-control-allow-origin': origin,
          'access-control-allow-methods': 'GET, POST, DELETE',
          'access-control-allow-headers': 'authorization, *',
          vary: 'origin',
        })
        expect(asked.headers.has('access-control-allow-credentials')).to.equal(false)
        const response = await gateway.invoke('/mcp/files/read@1', {}, { origin })
        expect(Object.fromEntries(response.headers)).to.include({
          'access-control-allow-origin': origin,
          'access-control-expose-headers': '*',
        })
        const refused = await gateway.invoke('/mcp/nosuch/read@1', {}, { origin })
        expect(refused.status).to.equal(404)
        expect(refused.headers.get('access-control-allow-origin')).to.equal(origin)
      }))

  it('of another origin gets no CORS headers', () =>
    withGateway({ allowedOrigins: [app] }, async (gateway) => {
      for (const origin of [evil, 'null']) {
        const asked = await preflight(gateway, origin)
        expect(asked.status).to.equal(405)
        const response = await gateway.invoke('/mcp/files/read@1', {}, { origin })
        for (const { headers } of [asked, response]) {
          expect([...headers.keys()].filter((name) => name.startsWith('access-control'))).to.deep.equal([])
        }
      }
    }))
})
