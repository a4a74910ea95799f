// Clients of a governed server are asked as clients of a gateway are: for a confirmation, and to open the page of an approval.
import { Client as Client2, InMemoryTransport as Memory2 } from '@modelcontextprotocol/client'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { InMemoryTransport } from '@modelcontextprotocol/sdk/inMemory.js'
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js'
import { ElicitRequestSchema } from '@modelcontextprotocol/sdk/types.js'
import { McpServer as McpServer2 } from '@modelcontextprotocol/server'
import { resolve } from '@svc/core'
import { escalationService } from '@svc/plugin-enforcement'
import { expect } from 'chai'
import { createPipeline, type PipelineOptions } from 'svc-sdk'
import type { InProcessPipeline } from 'svc-sdk/internal/in-process/pipeline'
import { governServer, instrument } from 'svc-sdk/mcp'
import { z } from 'zod'
import { recordingTo } from '../../support/gateway.js'

interface Asked {
  readonly mode?: string
  readonly message: string
  readonly url?: string
}
type Person = (asked: Asked) => object | Promise<object>

const capabilities = { elicitation: { form: {}, url: {} } }
const refundText = ({ amount }: { amount: number }) => ({
  content: [{ type: 'text' as const, text: `refunded ${amount}` }],
})
const rule = { name: 'large', tools: ['*/refund'], then: 'confirm' as const, ask: 'Refund {args.amount}?' }
const waits = {
  name: 'refunds',
  tools: ['*/refund'],
  then: 'escalate' as const,
  message: 'A person approves.',
}
const yes = { action: 'accept', content: { confirm: true } }

async function connect1(server: McpServer, person: Person, declared: object): Promise<Client> {
  const client = new Client({ name: 'test', version: '1' }, { capabilities: declared })
  if ('elicitation' in declared)
    client.setRequestHandler(
      ElicitRequestSchema,
      async ({ params }) => (await person(params as Asked)) as never,
    )
  const [ours, theirs] = InMemoryTransport.createLinkedPair()
  await server.connect(ours)
  await client.connect(theirs)
  return client
}

async function connect2(server: McpServer2, person: Person, declared: object): Promise<Client> {
  const client = new Client2({ name: 'test', version: '1' }, { capabilities: declared })
  if ('elicitation' in declared)
    client.setRequestHandler(
      'elicitation/create',
      async ({ params }) => (await person(params as Asked)) as never,
    )
  const [ours, theirs] = Memory2.createLinkedPair()
  await server.connect(ours)
  await client.connect(theirs)
  return client as unknown as Client
}

for (const version of [1, 2] as const) {
  describe(`a governed MCP server of version ${version} of the SDK, whose policy asks people`, () => {
    async function start(
      settings: Partial<PipelineOptions>,
      person: Person,
      declared: object = capabilities,
    ) {
      const records: Record<string, unknown>[] = []
      const info = { name: 'billing', version: '1.0.0' }
      const one = new McpServer(info)
      one.registerTool('refund', { inputSchema: { amount: z.number() } }, refundText)
      const two = new McpServer2(info)
      two.registerTool('refund', { inputSchema: z.object({ amount: z.number() }) }, refundText)
      const pipeline = createPipeline({
        tenant: 'acme',
        quotas: { adapter: 'memory' },
        authn: { allowUnauthenticated: true },
        entitlements: 'open',
        enforcement: { escalations: { adapter: 'memory' } },
        ...recordingTo({ append: async (record) => void records.push(record as Record<string, unknown>) }),
        ...settings,
      })
      governServer(version === 1 ? one : two, pipeline)
      await pipeline.ready()
      const asked: Asked[] = []
      const ask = (request: Asked) => {
        asked.push(request)
        return person(request)
      }
      const client = await (version === 1 ? connect1(one, ask, declared) : connect2(two, ask, declared))
      return {
        pipeline,
        client,
        asked,
        records,
        refund: (amount: number): Promise<string> =>
          client.callTool({ name: 'refund', arguments: { amount } }).then(
            ({ content }) => (content as { text: string }[])[0]?.text ?? '',
            ({ message }: Error) => message,
          ),
        vote: (id: string) => {
          const { current } = pipeline as InProcessPipeline
          const { container } = current
          return resolve(container, escalationService).vote(id, { kind: 'admin' }, { vote: 'approve' })
        },
        async [Symbol.asyncDispose]() {
          await client.close()
          await pipeline.close()
        },
      }
    }

    it('sends a call that they confirm, and no other', async () => {
      let response: object = yes
      await using rig = await start({ rules: [rule] }, () => response)
      expect(await rig.refund(1)).to.equal('refunded 1')
      for (response of [
        { action: 'decline' },
        { action: 'cancel' },
        { action: 'accept', content: { confirm: false } },
      ])
        expect(await rig.refund(2)).to.contain('did not confirm: billing/refund was not sent')
      expect(rig.asked).to.have.length(4)
      expect(rig.asked[0]?.message).to.match(/^Refund 1\?/)
      const tools = rig.records.map(({ tool }) => tool)
      expect(tools.filter((tool) => tool === 'confirmations/accept@1')).to.have.length(1)
    })

    it('denies it of a client without forms', async () => {
      await using rig = await start({ rules: [rule] }, () => yes, {})
      expect(await rig.refund(1)).to.contain('rule:large')
      expect(rig.asked).to.deep.equal([])
    })

    it('sends a call once it is approved, and closes while one is held', async () => {
      let hold = false
      const settings = {
        rules: [waits],
        admin: { port: 9090, publicUrl: 'https://gateway.example', tokenRef: 'env:T' },
        env: { T: 'x'.repeat(32) },
      }
      await using rig = await start(settings, async ({ url = '' }) => {
        if (hold) void rig.pipeline.close()
        else await rig.vote(url.slice(url.lastIndexOf('/') + 1))
        return { action: 'accept' }
      })
      expect(await rig.refund(1)).to.equal('refunded 1')
      expect(rig.asked[0]?.url).to.match(/^https:\/\/gateway\.example\/console\/approvals\/esc_/)
      hold = true
      expect(await rig.refund(2)).to.match(/Escalation esc_/)
    })
  })
}

describe('an instrumented MCP server', () => {
  it('asks its clients nothing', async () => {
    const server = new McpServer({ name: 'billing', version: '1.0.0' })
    server.registerTool('refund', { inputSchema: { amount: z.number() } }, refundText)
    const governed = instrument(server, { appender: { append: async () => undefined }, tenant: 'acme' })
    const client = await connect1(server, () => Promise.reject(new Error('asked')), capabilities)
    const { content } = await client.callTool({ name: 'refund', arguments: { amount: 1 } })
    expect(content).to.deep.equal(refundText({ amount: 1 }).content)
    await client.close()
    await governed.close()
  })
})
