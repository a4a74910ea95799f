import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { InMemoryTransport } from '@modelcontextprotocol/sdk/inMemory.js'
import type { AuthInfo } from '@modelcontextprotocol/sdk/server/auth/types.js'
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js'
import { ElicitRequestSchema, type McpError } from '@modelcontextprotocol/sdk/types.js'
import { bind, tokens } from '@svc/core'
import { generateKeyFile, LocalDevSigner, SvcAppender } from '@svc/plugin-audit/log'
import { verifyLog } from '@svc/plugin-audit/tools'
import { expect } from 'chai'
import type { GatewaySettings } from 'svc-sdk'
import { type GovernedServer, type GovernServerOptions, governServer, instrument } from 'svc-sdk/mcp'
import { z } from 'zod'
import { keepingLogger } from '../../support/logger.js'
import { refusalOf, rejectionOf } from '../../support/rejection.js'

const allowed = {
  default_plan: 'free',
  plans: { free: { allowlist: ['calc/add', 'calc/slow', 'calc/ask', 'calc/trace'] } },
  tenants: {},
}

class ServerRig implements AsyncDisposable {
  readonly home = mkdtempSync(join(tmpdir(), 'svc-test-'))
  readonly dir = join(this.home, 'audit')
  readonly log = keepingLogger()
  readonly server = new McpServer({ name: 'calc', version: '1.2.0' })
  readonly client = new Client({ name: 'test', version: '1' }, { capabilities: { elicitation: {} } })
  governed: GovernedServer | undefined
  /** The arguments of the calls of the tools. */
  readonly ran: string[] = []

  register(): this {
    const text = (value: string) => ({ content: [{ type: 'text' as const, text: value }] })
    this.server.registerTool('add', { inputSchema: { a: z.number(), b: z.number() } }, ({ a, b }) => {
      this.ran.push('add')
      return text(String(a + b))
    })
    this.server.registerTool('wipe', {}, () => {
      this.ran.push('wipe')
      return text('wiped')
    })
    this.server.registerTool('trace', {}, ({ _meta }) => text(String(_meta?.['traceparent'])))
    this.server.registerTool('slow', {}, () => {
      this.ran.push('slow')
      return new Promise<never>(() => undefined)
    })
    this.server.registerTool('ask', {}, async () => {
      const response = await this.server.server.elicitInput({
        message: 'sure?',
        requestedSchema: { type: 'object', properties: {} },
      })
      return text(response.action)
    })
    return this
  }

  govern(config: GatewaySettings = {}, options: GovernServerOptions = {}): this {
    generateKeyFile(join(this.home, 'key'))
    this.governed = governServer(
      this.server,
      {
        tenant: 'acme',
        sec0Dir: join(this.home, 'state'),
        audit: {
          gatewayName: 'calc',
          gatewayVersion: '1.2.0',
          dir: this.dir,
          signer: { keyRef: `file://${join(this.home, 'key')}` },
        },
        quotas: { adapter: 'memory' },
        authn: { allowUnauthenticated: true },
        entitlements: allowed,
        configure: (container) => bind(container, tokens.Logger, { useValue: this.log }),
        ...config,
      },
      options,
    )
    return this
  }

  /** `authInfo` is the client that the transport has authenticated. */
  async connect(authInfo?: AuthInfo): Promise<Client> {
    const [ours, theirs] = InMemoryTransport.createLinkedPair()
    const send = theirs.send.bind(theirs)
    theirs.send = (message, options) =>
      send(message, { ...options, ...(authInfo === undefined ? {} : { authInfo }) })
    await this.server.connect(ours)
    await this.client.connect(theirs)
    return this.client
  }

  records() {
    return readdirSync(this.dir)
      .filter((name) => /^audit-.*\.ndjson$/.test(name))
      .flatMap((name) => readFileSync(join(this.dir, name), 'utf8').split('\n').filter(Boolean))
      .map((line) => JSON.parse(line) as Record<string, unknown>)
  }

  /** The records of tool calls. */
  calls() {
    return this.records().filter(({ mcp_method }) => mcp_method === 'tools/call')
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.client.close()
    await this.server.close()
    await this.governed?.close()
    rmSync(this.home, { recursive: true, force: true })
  }
}

describe('a governed MCP server', () => {
  for (const [when, prepare] of [
    ['before', (rig: ServerRig) => rig.register().govern()],
    ['after', (rig: ServerRig) => rig.govern().register()],
  ] as const) {
    it(`whose tools were registered ${when} lists and runs allowed tools, and records each call`, async () => {
      await using rig = new ServerRig()
      const client = await prepare(rig).connect()
      const { tools } = await client.listTools()
      expect(tools.map(({ name }) => name)).to.have.members(['add', 'slow', 'ask', 'trace'])
      const result = await client.callTool({ name: 'add', arguments: { a: 1, b: 2 } })
      expect(result.content).to.deep.equal([{ type: 'text', text: '3' }])
      expect(rig.calls()).to.have.length(1)
      expect(rig.calls()[0]).to.include({
        server: 'calc@1.2.0',
        tool: 'add@1.2.0',
        status: 'ok',
        tenant: 'acme',
      })
    })
  }

  it('does not run a denied tool: its result has code and reason', async () => {
    await using rig = new ServerRig()
    const client = await rig.register().govern().connect()
    expect(await refusalOf(client.callTool({ name: 'wipe' }))).to.include({
      error: 'TOOL_NOT_ALLOWED',
      denial_reason: 'tool_not_in_allowlist',
      sent: false,
    })
    expect(rig.ran).to.deep.equal([])
    expect(rig.calls()[0]).to.include({ error: 'TOOL_NOT_ALLOWED' })
  })

  it('replays the response to an idempotency key', async () => {
    await using rig = new ServerRig()
    const client = await rig.register().govern({ dedupe: {} }).connect()
    const call = { name: 'add', arguments: { a: 1, b: 2 }, _meta: { 'svc/idempotency-key': 'order-7' } }
    expect(await client.callTool(call)).to.deep.equal(await client.callTool(call))
    expect(rig.ran).to.deep.equal(['add'])
  })

  it('forwards requests of the server to its client during a call', async () => {
    await using rig = new ServerRig()
    rig.client.setRequestHandler(ElicitRequestSchema, async () => ({ action: 'decline' }))
    const client = await rig.register().govern().connect()
    const result = await client.callTool({ name: 'ask' })
    expect(result.content).to.deep.equal([{ type: 'text', text: 'decline' }])
  })

  it('gives handlers the trace of the record as the parent', async () => {
    await using rig = new ServerRig()
    const client = await rig.register().govern().connect()
    const traceId = 'a'.repeat(32)
    const result = await client.callTool({
      name: 'trace',
      _meta: { traceparent: `00-${traceId}-${'b'.repeat(16)}-01` },
    })
    const [record] = rig.calls()
    expect(record).to.include({ trace_id: traceId, cause_span_id: 'b'.repeat(16) })
    expect(result.content).to.deep.equal([{ type: 'text', text: `00-${traceId}-${record?.['span_id']}-01` }])
  })

  it('ends and records a call that its client cancels', async () => {
    await using rig = new ServerRig()
    const client = await rig.register().govern().connect()
    const cancel = new AbortController()
    const call = rejectionOf<McpError>(
      client.callTool({ name: 'slow' }, undefined, { signal: cancel.signal }),
    )
    while (!rig.ran.includes('slow')) await new Promise(setImmediate)
    cancel.abort()
    await call
    await rig.governed?.close()
    expect(rig.calls()[0]).to.include({ status: 'error', error: 'CANCELLED' })
  })

  it('ends and records calls when the connection closes', async () => {
    await using rig = new ServerRig()
    const client = await rig.register().govern().connect()
    const call = rejectionOf<McpError>(client.callTool({ name: 'slow' }))
    while (!rig.ran.includes('slow')) await new Promise(setImmediate)
    await client.close()
    await call
    await rig.governed?.close()
    expect(rig.calls()[0]).to.include({ status: 'error', error: 'CANCELLED' })
  })

  it('uses the identity that the transport has authenticated', async () => {
    await using rig = new ServerRig()
    rig.register().govern({
      authn: {},
      entitlements: {
        ...allowed,
        plans: { free: {} },
        tenants: { acme: { plan: 'free', allowlist: [], agents: { robot: { allowlist: ['calc/add'] } } } },
      },
    })
    const client = await rig.connect({ token: 't', clientId: 'robot', scopes: [] })
    expect((await client.listTools()).tools.map(({ name }) => name)).to.deep.equal(['add'])
    expect(rig.records().at(-1)?.['principal']).to.deep.equal({ client_id: 'robot' })
  })

  it('refuses a client that is not authenticated', async () => {
    await using rig = new ServerRig()
    rig.register().govern({ authn: {} })
    expect((await rejectionOf<McpError>(rig.connect())).data).to.include({ error: 'UNAUTHENTICATED' })
  })

  it('follows a reloaded policy', async () => {
    await using rig = new ServerRig()
    const client = await rig.register().govern().connect()
    await rig.governed?.reload({
      entitlements: { ...allowed, plans: { free: { allowlist: ['calc/wipe'] } } },
    })
    expect((await client.listTools()).tools.map(({ name }) => name)).to.deep.equal(['wipe'])
  })
})

describe('an instrumented MCP server', () => {
  it('lets every call pass and records it in the given log', async () => {
    await using rig = new ServerRig()
    const signer = LocalDevSigner.fromSeed(new Uint8Array(32).fill(3))
    const appender = new SvcAppender({ config: { dir: rig.dir, retentionDays: 9999 }, signer })
    rig.governed = instrument(rig.register().server, { appender, tenant: 'acme' })
    const client = await rig.connect()
    await client.callTool({ name: 'wipe' })
    expect(rig.ran).to.deep.equal(['wipe'])
    await rig.governed.close()
    expect(rig.calls()[0]).to.include({ tool: 'wipe@1.2.0', status: 'ok' })
    await appender.close()
    expect((await verifyLog(rig.dir)).verdict).to.equal('intact')
  })

  const deep = (levels: number): unknown => {
    let value: unknown = 'end'
    for (let level = 0; level < levels; level++) value = [value]
    return value
  }
  const add = { name: 'add', arguments: { a: 1, b: 2 } }

  for (const [what, message, tool] of [
    ['a lone surrogate', { params: { ...add, arguments: { a: 1, b: 2, note: '\ud800' } } }, 'add@1.2.0'],
    ['a deep array', { params: { ...add, arguments: { a: 1, b: 2, note: deep(600) } } }, 'add@1.2.0'],
    ['a deeper array', { params: { ...add, arguments: { a: 1, b: 2, note: deep(20_000) } } }, 'add@1.2.0'],
    ['a member that the method does not know', { params: { ...add, more: 1 } }, 'add@1.2.0'],
    ['a bad idempotency key', { params: { ...add, _meta: { 'svc/idempotency-key': 7 } } }, 'add@1.2.0'],
    ['a method that is not a method', { method: 'Tools/Call\ud800', params: {} }, 'Tools/Call\ufffd@1.2.0'],
  ] as const) {
    it(`lets ${what} pass unchanged, and records it once`, async () => {
      await using rig = new ServerRig()
      const records: Record<string, unknown>[] = []
      const append = async (record: object): Promise<void> => void records.push({ ...record })
      rig.governed = instrument(rig.register().server, { appender: { append }, tenant: 'acme' })
      const [ours, theirs] = InMemoryTransport.createLinkedPair()
      await rig.server.connect(ours)
      const responded = new Promise((resolve) => {
        theirs.onmessage = resolve
      })
      await theirs.start()
      const { onmessage } = ours
      const whole = { jsonrpc: '2.0', id: 7, method: 'tools/call', ...message }
      onmessage?.(whole as never)
      expect(await responded).to.include({ id: 7 })
      expect(records).to.have.length(1)
      expect(records[0]).to.include({ tool, policy: records[0]?.['policy'] })
      expect(records[0]?.['policy']).to.include({ decision: 'allow' })
      expect(records[0]?.['input_sha256']).to.match(/^[0-9a-f]{64}$/)
      if (tool.startsWith('add')) expect(rig.ran).to.deep.equal(['add'])
    })
  }
})

describe('a governed server whose contextOf throws', () => {
  for (const allowUnauthenticated of [true, false]) {
    it(`refuses the message with a response and a record, with allowUnauthenticated: ${allowUnauthenticated}`, async () => {
      await using rig = new ServerRig()
      let fails = false
      const contextOf = () => {
        if (fails) throw new Error('no session store')
        return { identity: { tenant: 'acme' } }
      }
      rig.register().govern({ authn: { allowUnauthenticated } }, { contextOf })
      const client = await rig.connect()
      fails = true
      const error = await rejectionOf<McpError>(client.callTool({ name: 'add', arguments: { a: 1, b: 2 } }))
      const code = allowUnauthenticated ? 'INTERNAL' : 'UNAUTHENTICATED'
      expect(error.data).to.include({ error: code, sent: false })
      expect(rig.ran).to.deep.equal([])
      const refused = rig.records().filter((record) => record['error'] === code)
      expect(refused).to.have.length(1)
      expect(refused[0]).to.include({ status: 'error', output_sha256: null })
    })
  }
})
