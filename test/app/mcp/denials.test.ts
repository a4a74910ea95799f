// What a model learns of a call that was refused, through clients of the protocol's SDKs.
import { expect } from 'chai'
import type { GatewaySettings } from 'svc-sdk'
import { z } from 'zod'
import { startTestGateway, type TestGateway } from '../../support/gateway.js'
import { postMcp } from '../../support/mcp-post.js'
import { ofSuite } from '../../support/parts.js'
import { connect1, connect2 } from '../../support/sdk-clients.js'
import { startSessionServer } from '../../support/tool-servers.js'
import { ask } from '../admin/rig.js'

const adminToken = 'a-token-of-the-tests-0123456789'
/** The member of `_meta` by which a client numbers its calls. */
const CALL_NUMBER = 'claudecode/toolUseId'
const clients = { 'SDK 1.x': connect1, 'SDK 2.x': connect2 } as const
const endpoints = [
  ['/mcp/notes', ''],
  ['/mcp', 'notes__'],
] as const

interface Shown {
  readonly isError?: boolean
  readonly content?: readonly { readonly type: string; readonly text: string }[]
  readonly _meta?: Record<string, Record<string, unknown>>
}

describe('a call that is refused', function () {
  this.timeout(60_000)

  const notes = ofSuite(() =>
    startSessionServer('notes', (server) => {
      server.registerTool('send', { inputSchema: { to: z.string() } }, ({ to }, { _meta }) => ({
        content: [{ type: 'text', text: `sent to ${to}${_meta?.[CALL_NUMBER] ?? ''}` }],
      }))
      server.registerTool('banned', {}, () => ({ content: [] }))
      server.registerTool('rare', {}, () => ({ content: [{ type: 'text', text: 'rare' }] }))
    }),
  )
  const other = ofSuite(() =>
    startSessionServer('other', (server) => {
      server.registerTool('rare', {}, () => ({ content: [] }))
    }),
  )

  const start = (more: Partial<GatewaySettings>) =>
    startTestGateway({
      targets: { notes: notes.url, other: other.url },
      admin: { port: 0, tokenRef: 'env:SVC_ADMIN' },
      env: { SVC_ADMIN: adminToken },
      entitlements: {
        default_plan: 'p',
        plans: { p: { allowlist: ['notes/*', 'other/*'], denylist: ['notes/banned'] } },
        tenants: {
          acme: { plan: 'p', allowlist: ['notes/*', 'other/*'], per_tool: { rare: { calls_per_day: 1 } } },
        },
      },
      security: {
        side_effects: { approve_high_risk: true, human_escalation: { approval_strategy: 'single_approver' } },
        egress_allowlist: [],
      },
      enforcement: { escalate_on: ['egress_violation'] },
      ...more,
    })

  async function approve(gateway: TestGateway, id: string): Promise<void> {
    const { adminUrl = '' } = await gateway.handle.ready()
    const headers = { authorization: `Bearer ${adminToken}`, 'content-type': 'application/json' }
    const { status } = await ask(adminUrl, `/api/escalations/${id}/votes`, {
      method: 'POST',
      headers,
      body: JSON.stringify({ vote: 'approve' }),
    })
    expect(status).to.equal(200)
  }

  for (const [sdk, connect] of Object.entries(clients)) {
    for (const [path, prefix] of endpoints) {
      describe(`at ${path}, with a client of ${sdk}`, () => {
        for (const denials of ['error', 'result'] as const) {
          it(`is shown with its reason as an MCP ${denials}, and is served if it is repeated after its approval`, async () => {
            await using gateway = await start({ server: { mcp: { denials } } })
            const client = await connect(`${gateway.url}${path}`)
            let calls = 0
            const call = async (name: string, args: Record<string, unknown> = {}): Promise<Shown> => {
              const _meta = { [CALL_NUMBER]: `toolu_${++calls}` }
              return client.callTool({ name: `${prefix}${name}`, arguments: args, _meta }) as Promise<Shown>
            }
            const refused = async (name: string, args?: Record<string, unknown>) => {
              if (denials === 'result') {
                const { isError, content = [], _meta } = await call(name, args)
                expect(isError).to.equal(true)
                return { text: content[0]?.text ?? '', data: _meta?.['svc/error'] }
              }
              return call(name, args).then(
                () => expect.fail('the call was served'),
                ({ message, data }: { message: string; data: Record<string, unknown> }) => ({
                  text: message,
                  data,
                }),
              )
            }
            expect((await refused('banned')).text).to.contain('notes/banned')

            await call('rare')
            const limited = await refused('rare')
            expect(limited.text).to.contain('Try again in')
            expect(limited.data).to.have.property('retryAfter').that.is.a('number').greaterThan(1)

            const held = await refused('send', { to: 'https://example.com/' })
            const id = String(held.data?.['escalation_id'])
            expect(held.text).to.contain(
              `${id}: tell the user about it. Once it is approved, repeat the same call`,
            )
            expect((await refused('send', { to: 'https://example.com/' })).text).to.contain(id)
            await approve(gateway, id)
            const served = await call('send', { to: 'https://example.com/' })
            expect(served.content?.[0]?.text).to.equal(`sent to https://example.com/toolu_${calls}`)
            await client.close()
          })
        }
      })
    }
  }

  it('stays an error if its caller waits for a task, or if it breaks the protocol', async () => {
    await using gateway = await start({ server: { mcp: { denials: 'result' } } })
    const errorOf = async (params: object): Promise<unknown> => {
      const response = await postMcp(`${gateway.url}/mcp/notes`, { id: 1, method: 'tools/call', params })
      return ((await response.json()) as { error?: { code: number } }).error?.code
    }
    expect(await errorOf({ name: 'banned', task: {} })).to.equal(403)
    expect(await errorOf({ name: 'banned', other: {} })).to.equal(-32602)
    expect(await errorOf({ name: 'banned' })).to.equal(undefined)
  })

  for (const [prefix, cases] of [
    ['always', { send: 'notes__send', rare: 'notes__rare or other__rare', none: undefined }],
    ['conflict', { rare: undefined, none: undefined }],
  ] as const) {
    it(`of a tool under the name at its server gets an error with the listed name, with prefix: ${prefix}`, async () => {
      await using gateway = await start({ federation: { prefix } })
      await using client = await connect1(`${gateway.url}/mcp`)
      for (const [name, here] of Object.entries(cases)) {
        const message = await client.callTool({ name }).then(
          () => expect.fail('the call was served'),
          (error: Error) => error.message,
        )
        if (here !== undefined) expect(message).to.contain(`Unknown tool: ${name}; here it is ${here}.`)
        else expect(message).not.to.contain('here it is')
      }
    })
  }
})
