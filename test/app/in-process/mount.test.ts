import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { bind, tokens } from '@svc/core'
import { expect } from 'chai'
import express from 'express'
import fastify from 'fastify'
import type { GatewaySettings } from 'svc-sdk'
import { type MountedGateway, type MountOptions, mountGateway } from 'svc-sdk/node'
import { recordingTo } from '../../support/gateway.js'
import { keepingLogger } from '../../support/logger.js'
import { json, type Message } from '../../support/mcp-server.js'
import { ofEachTest } from '../../support/parts.js'
import { startUpstream, type TestUpstream } from '../../support/upstream.js'

interface Mounted extends AsyncDisposable {
  readonly url: string
  readonly gateway: MountedGateway
  readonly records: Record<string, unknown>[]
}

async function listening(server: Server): Promise<string> {
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

/** `serve` makes the server in which the gateway is mounted. */
async function mounted(
  upstream: TestUpstream,
  serve: (gateway: MountedGateway) => Promise<Server>,
  options: GatewaySettings & Pick<MountOptions, 'prefix'> = {},
): Promise<Mounted> {
  const home = mkdtempSync(join(tmpdir(), 'svc-test-'))
  const records: Record<string, unknown>[] = []
  const { audit, configure } = recordingTo({
    append: async (record) => void records.push(record as Record<string, unknown>),
  })
  const gateway = mountGateway({
    tenant: 'acme',
    sec0Dir: home,
    targets: { files: upstream.url },
    quotas: { adapter: 'memory' },
    authn: { allowUnauthenticated: true },
    entitlements: 'open',
    ...(audit === undefined ? {} : { audit }),
    configure(container) {
      bind(container, tokens.Logger, { useValue: keepingLogger() })
      configure?.(container)
    },
    ...options,
  })
  const server = await serve(gateway)
  const url = await listening(server)
  return {
    url,
    gateway,
    records,
    async [Symbol.asyncDispose]() {
      await gateway.close()
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
      rmSync(home, { recursive: true, force: true })
    },
  }
}

const post = (url: string, body: string, headers = {}) =>
  fetch(url, { method: 'POST', headers: { 'content-type': 'application/json', ...headers }, body })

const inExpress = async ({ handler }: MountedGateway): Promise<Server> => {
  const app = express()
  app.use('/agents', handler)
  app.use(express.json())
  app.post('/own', (request, response) => void response.json({ own: request.body }))
  return createServer(app)
}

const inFastify = async ({ handler }: MountedGateway): Promise<Server> => {
  const app = fastify()
  // The gateway reads bodies itself.
  await app.register(async (scope) => {
    scope.removeAllContentTypeParsers()
    scope.addContentTypeParser('*', (_request, _payload, done) => done(null))
    scope.all('/agents/*', (request, reply) => {
      reply.hijack()
      handler(request.raw, reply.raw)
    })
  })
  app.post('/own', async (request) => ({ own: request.body }))
  await app.ready()
  return app.server
}

describe('a gateway mounted in', () => {
  const upstream = ofEachTest(() => startUpstream())

  for (const [name, serve, options] of [
    ['Express', inExpress, {}],
    ['Fastify', inFastify, { prefix: '/agents' }],
    [
      "node's own server",
      async ({ handler }: MountedGateway) =>
        createServer((request, response) =>
          handler(request, response, () => {
            response.setHeader('content-type', 'application/json')
            request.setEncoding('utf8')
            request.once('data', (body: string) => response.end(`{"own":${body}}`))
          }),
        ),
      { prefix: '/agents' },
    ],
  ] as const) {
    it(`${name} serves its prefix, with a record, and no other path`, async () => {
      await using rig = await mounted(upstream, serve, options)
      const response = await post(`${rig.url}/agents/mcp/files/read@1`, '{"a":1}')
      expect(response.status).to.equal(200)
      expect(upstream.calls).to.have.length(1)
      expect(rig.records[0]).to.include({ tool: 'read@1', status: 'ok' })
      expect((await fetch(`${rig.url}/agents/healthz`)).status).to.equal(200)
      expect((await post(`${rig.url}/agents/nothing`, '{}')).status).to.equal(404)
      expect(await (await post(`${rig.url}/own`, '{"b":2}')).json()).to.deep.equal({ own: { b: 2 } })
      expect(rig.records).to.have.length(1)
    })
  }

  it('Express serves MCP clients', async () => {
    await using server = await startUpstream(({ body }, response) => {
      const message = JSON.parse(body) as Message
      if (message.id === undefined) response.writeHead(202).end()
      else
        json(response, {
          jsonrpc: '2.0',
          id: message.id,
          result: {
            protocolVersion: '2025-11-25',
            capabilities: {},
            serverInfo: { name: 's', version: '1' },
          },
        })
    })
    await using rig = await mounted(upstream, inExpress, { targets: { everything: server.url } })
    const client = new Client({ name: 'test', version: '1' })
    await client.connect(new StreamableHTTPClientTransport(new URL(`${rig.url}/agents/mcp/everything`)))
    await client.close()
    expect(rig.records.map(({ mcp_method }) => mcp_method)).to.include('initialize')
  })

  it('a server refuses repeated headers of which Node keeps only the first', async () => {
    await using rig = await mounted(upstream, inExpress)
    const { hostname, port } = new URL(rig.url)
    const { request } = await import('node:http')
    const status = await new Promise((resolve, reject) => {
      const sent = request(
        {
          hostname,
          port,
          method: 'POST',
          path: '/agents/mcp/files/read@1',
          headers: [
            'Host',
            `${hostname}:${port}`,
            'Authorization',
            'Bearer a',
            'Authorization',
            'Bearer b',
            'Content-Length',
            '2',
          ],
        },
        (response) => {
          response.resume()
          resolve(response.statusCode)
        },
      )
      sent.on('error', reject)
      sent.end('{}')
    })
    expect(status).to.equal(400)
    expect(upstream.calls).to.have.length(0)
  })

  it('a server reports a body parser that has read the body before it', async () => {
    await using rig = await mounted(upstream, async ({ handler }) => {
      const app = express()
      app.use(express.json())
      app.use('/agents', handler)
      return createServer(app)
    })
    const response = await post(`${rig.url}/agents/mcp/files/read@1`, '{"a":1}')
    expect(response.status).to.equal(500)
    expect(await response.text()).to.contain('before body parsers')
  })

  it('a server is reloaded, drains, and then refuses', async () => {
    await using rig = await mounted(upstream, inExpress)
    await rig.gateway.ready()
    await rig.gateway.reload({ entitlements: { default_plan: 'free', plans: { free: {} }, tenants: {} } })
    expect((await post(`${rig.url}/agents/mcp/files/read@1`, '{}')).status).to.equal(403)
    await rig.gateway.close()
    expect((await post(`${rig.url}/agents/mcp/files/read@1`, '{}')).status).to.equal(503)
    expect((await post(`${rig.url}/own`, '{}')).status).to.equal(200)
  })

  it('a server refuses a prefix that is not a path', () => {
    expect(() => mountGateway({ prefix: 'agents/', policyObject: {} })).to.throw(TypeError, /prefix/)
  })
})
