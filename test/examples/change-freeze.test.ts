import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { bind, tokens } from '@svc/core'
import changeFreeze from '@svc/example-custom-stage/change-freeze'
import { startToolServer, type ToolServer } from '@svc/example-quick-start/tool-server'
import { expect } from 'chai'
import { type GatewayHandle, startGatewayServer } from 'svc-sdk/gateway'
import { conformance, FakeClock } from 'svc-sdk/testing'
import { keepingLogger } from '../support/logger.js'
import { rejectionOf } from '../support/rejection.js'

// The path of the compiled module, as the policy of the example names it.
const exampleDir = dirname(
  dirname(fileURLToPath(import.meta.resolve('@svc/example-custom-stage/change-freeze'))),
)

const from = '2026-12-20T00:00:00Z'
const until = '2027-01-04T00:00:00Z'
const beforeFreeze = Date.parse(from) - 1
const duringFreeze = Date.parse(from)
const afterFreeze = Date.parse(until)

describe('the example of a custom stage', () => {
  describe('in the conformance suite', () => {
    const validConfig = { from, until, tools: ['billing/*'] }
    for (const { title, run } of conformance(changeFreeze, { validConfig })) it(title, run)
  })

  describe('with a section that', () => {
    const mistakes: [title: string, section: object][] = [
      ['a freeze that ends before it begins', { from: until, until: from, tools: ['billing/*'] }],
      ['a time without a zone', { from: '2026-12-20T00:00:00', until, tools: ['billing/*'] }],
      ['an empty list of tools', { from, until, tools: [] }],
      ['a pattern that can match nothing', { from, until, tools: [''] }],
    ]
    for (const [title, section] of mistakes) {
      it(`refuses ${title}`, () => {
        expect(changeFreeze.schema.safeParse(section).success).to.equal(false)
      })
    }
  })

  describe('in a gateway', () => {
    let directory: string
    let tools: ToolServer
    let gateway: GatewayHandle | undefined
    let client: Client | undefined

    beforeEach(async () => {
      directory = await mkdtemp(join(tmpdir(), 'svc-change-freeze-'))
      tools = await startToolServer()
    })

    afterEach(async () => {
      await client?.close()
      await gateway?.close()
      await tools.close()
      await rm(directory, { recursive: true })
      client = undefined
      gateway = undefined
    })

    function policy(version = '^1', more = ''): string {
      return [
        'tenant: demo',
        `targets: { billing: "${tools.url}" }`,
        'audit: { gatewayName: test, gatewayVersion: 1.0.0 }',
        'authn: { allowUnauthenticated: true }',
        'entitlements: open',
        'quotas: { adapter: memory }',
        `plugins: [{ use: ./dist/change-freeze.js, version: ${version} }]`,
        `change_freeze: { from: "${from}", until: "${until}", tools: [billing/refund_payment] }`,
        more,
      ].join('\n')
    }

    /** Starts a gateway whose records go to an array, which the tests check. */
    async function start(policyYaml: string, now: number): Promise<{ url: string; records: object[] }> {
      const records: object[] = []
      gateway = startGatewayServer({
        port: 0,
        sec0Dir: directory,
        policyYaml: policyYaml.replace(/^audit:.*\n/m, ''),
        policyFile: join(exampleDir, 'policy.yaml'),
        audit: {
          gatewayName: 'test',
          gatewayVersion: '1.0.0',
          append: async (record: object) => {
            records.push(record)
          },
        },
        configure: (container) => {
          bind(container, tokens.Clock, { useValue: new FakeClock(now) })
          bind(container, tokens.Logger, { useValue: keepingLogger() })
        },
      })
      const { url } = await gateway.ready()
      return { url, records }
    }

    async function listed(url: string): Promise<string[]> {
      client = new Client({ name: 'test', version: '1.0.0' })
      await client.connect(new StreamableHTTPClientTransport(new URL(`${url}/mcp/billing`)))
      return (await client.listTools()).tools.map(({ name }) => name)
    }

    function refund(url: string): Promise<Response> {
      return fetch(`${url}/mcp/billing/refund_payment@1.0.0`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ invoice: 'INV-1001', amount: 80, reason: 'test' }),
      })
    }

    it('denies the named tools during the freeze, with the reason in the record', async () => {
      const { url, records } = await start(policy(), duringFreeze)
      const response = await refund(url)
      expect(response.status).to.equal(403)
      expect(await response.json()).to.include({
        error: 'TOOL_NOT_ALLOWED',
        denial_type: 'change_freeze',
        denial_reason: 'change_freeze',
        sent: false,
      })
      expect(tools.refunds).to.deep.equal([])
      expect(records).to.have.length(1)
      expect(records[0]).to.deep.include({ risk_tags: ['change_freeze'] })
    })

    it('does not list them to MCP clients during the freeze', async () => {
      const { url } = await start(policy(), duringFreeze)
      expect(await listed(url)).to.deep.equal(['list_invoices', 'get_invoice', 'delete_customer'])
    })

    for (const [when, now] of [
      ['until the freeze begins', beforeFreeze],
      ['from the instant it ends', afterFreeze],
    ] as const) {
      it(`lets all calls pass ${when}`, async () => {
        const { url } = await start(policy(), now)
        expect((await refund(url)).status).to.equal(200)
        expect(tools.refunds).to.deep.equal(['INV-1001'])
      })
    }

    it('only reports in observe mode', async () => {
      const { url, records } = await start(policy('^1', 'enforcement: { mode: observe }'), duringFreeze)
      expect((await refund(url)).status).to.equal(200)
      expect(JSON.stringify(records)).to.include('"effect":"would_deny"')
    })

    it('is refused at load when the policy asks for another version', async () => {
      const error = await rejectionOf(start(policy('^2'), duringFreeze))
      expect(String(error)).to.match(/\^2/).and.to.include('1.0.0')
    })
  })
})
