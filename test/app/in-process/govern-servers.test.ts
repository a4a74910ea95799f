// A program that makes an MCP server for each request, as the SDK recommends for HTTP without sessions.
import { mkdtempSync, readdirSync, readlinkSync, rmSync } from 'node:fs'
import { createServer } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { InMemoryTransport } from '@modelcontextprotocol/sdk/inMemory.js'
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js'
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js'
import { generateKeyFile } from '@svc/plugin-audit/log'
import { verifyLog } from '@svc/plugin-audit/tools'
import { expect } from 'chai'
import { createPipeline, type GatewaySettings } from 'svc-sdk'
import { type GovernedServer, governServer } from 'svc-sdk/mcp'
import { listenOnLoopback } from '../../support/loopback.js'
import { refusalOf } from '../../support/rejection.js'

class Home implements Disposable {
  readonly path = mkdtempSync(join(tmpdir(), 'svc-test-'))
  readonly log = join(this.path, 'audit')

  constructor() {
    generateKeyFile(join(this.path, 'key'))
  }

  /** A configuration that is written anew for each server, as in a factory. */
  config(settings: GatewaySettings = {}): GatewaySettings {
    return {
      tenant: 'acme',
      sec0Dir: join(this.path, 'state'),
      audit: {
        gatewayName: 'calc',
        gatewayVersion: '1.0.0',
        dir: this.log,
        signer: { keyRef: `file://${join(this.path, 'key')}` },
      },
      quotas: { adapter: 'memory' },
      authn: { allowUnauthenticated: true },
      entitlements: 'open',
      ...settings,
    }
  }

  /** The files of the pipeline that this process has open. */
  openFiles(): string[] {
    return readdirSync('/proc/self/fd').flatMap((fd) => {
      const file = targetOf(join('/proc/self/fd', fd))
      return file?.startsWith(this.path) === true ? [file] : []
    })
  }

  [Symbol.dispose](): void {
    rmSync(this.path, { recursive: true, force: true })
  }
}

/** Undefined for the descriptor by which the folder was read. */
function targetOf(link: string): string | undefined {
  try {
    return readlinkSync(link)
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined
    throw error
  }
}

function calculator(): McpServer {
  const server = new McpServer({ name: 'calc', version: '1.0.0' })
  const text = { content: [{ type: 'text' as const, text: 'done' }] }
  server.registerTool('add', {}, () => text)
  server.registerTool('order_status', { annotations: { readOnlyHint: true } }, () => text)
  return server
}

/** Serves each request by a server of its own, without sessions. */
async function servePerRequest(govern: (server: McpServer) => void) {
  const http = createServer(async (request, response) => {
    const server = calculator()
    govern(server)
    const transport = new StreamableHTTPServerTransport({})
    response.on('close', () => void server.close())
    await server.connect(transport as never)
    await transport.handleRequest(request, response)
  })
  const listening = await listenOnLoopback(http)
  const { url } = listening
  const client = new Client({ name: 'test', version: '1' })
  await client.connect(new StreamableHTTPClientTransport(new URL(url)) as never)
  return {
    client,
    async [Symbol.asyncDispose]() {
      await client.close()
      await listening[Symbol.asyncDispose]()
    },
  }
}

async function connected(server: McpServer): Promise<Client> {
  const client = new Client({ name: 'test', version: '1' })
  const [ours, theirs] = InMemoryTransport.createLinkedPair()
  await server.connect(ours)
  await client.connect(theirs)
  return client
}

const requests = 100
const limits = { plans: { free: { allowlist: ['*'], calls_per_day: 2 } }, default_plan: 'free', tenants: {} }

describe('a governed MCP server for each request', () => {
  for (const form of ['pipeline', 'configuration'] as const) {
    it(`opens no more files with each request, with one ${form}`, async () => {
      using home = new Home()
      const pipeline = form === 'pipeline' ? createPipeline(home.config() as never) : undefined
      let governed: GovernedServer | undefined
      await using served = await servePerRequest((server) => {
        governed = governServer(server, (pipeline ?? home.config()) as never)
      })
      await served.client.callTool({ name: 'add' })
      const before = home.openFiles()
      expect(before).not.to.deep.equal([])
      for (let count = 0; count < requests; count++) await served.client.callTool({ name: 'add' })
      expect(home.openFiles()).to.have.members(before)
      await served[Symbol.asyncDispose]()
      await (pipeline ?? governed)?.close()
      while (home.openFiles().length > 0) await new Promise(setImmediate)
      expect((await verifyLog(home.log)).verdict).to.equal('intact')
    })

    it(`counts calls in memory over all servers, with one ${form}`, async () => {
      using home = new Home()
      const config = () => home.config({ entitlements: limits })
      const pipeline = form === 'pipeline' ? createPipeline(config() as never) : undefined
      let governed: GovernedServer | undefined
      await using served = await servePerRequest((server) => {
        governed = governServer(server, (pipeline ?? config()) as never)
      })
      for (let count = 0; count < 2; count++) await served.client.callTool({ name: 'add' })
      const refused = await refusalOf(served.client.callTool({ name: 'add' }))
      expect(refused).to.include({ error: 'QUOTA_EXCEEDED', sent: false })
      await (pipeline ?? governed)?.close()
    })
  }

  it('trusts annotations that a server sent after the pipeline had started', async () => {
    using home = new Home()
    const config = home.config({
      security: { side_effects: { require_idempotency_key: true, trust_annotations: true } },
    })
    const pipeline = createPipeline(config as never)
    await pipeline.ready()
    const server = calculator()
    governServer(server, pipeline)
    const client = await connected(server)
    await client.listTools()
    expect(await client.callTool({ name: 'order_status' })).to.have.property('content')
    await client.close()
    await pipeline.close()
  })

  it('leaves the pipeline of the program open when one of its servers closes', async () => {
    using home = new Home()
    const pipeline = createPipeline(home.config() as never)
    await governServer(calculator(), pipeline).close()
    const server = calculator()
    governServer(server, pipeline)
    const client = await connected(server)
    expect((await client.callTool({ name: 'add' })).isError).not.to.equal(true)
    await client.close()
    await pipeline.close()
  })

  it('closes the pipeline of a configuration with the last server that has a connection', async () => {
    using home = new Home()
    const servers = [calculator(), calculator()]
    const [first, last] = servers.map((server) => governServer(server, home.config() as never))
    const [one, other] = await Promise.all(servers.map(connected))
    await one?.close()
    await first?.close()
    expect(await other?.callTool({ name: 'add' })).to.have.property('content')
    await last?.close()
    expect(home.openFiles()).to.deep.equal([])
    await other?.close()
  })
})
