// What "Who may use what" says about the tools of callers, against live calls.
import { expect } from 'chai'
import type { GatewaySettings } from 'svc-sdk'
import { adminToken, ask } from '../app/admin/rig.js'
import { accessibilityViolations, chromiumOfSuite } from '../support/chromium.js'
import { TestIssuer } from '../support/issuer.js'
import { lastMessage, postStateless } from '../support/mcp-post.js'
import { ofSuite } from '../support/parts.js'
import { connect1 } from '../support/sdk-clients.js'
import { startSessionServer } from '../support/tool-servers.js'
import { ready, startConsole } from './rig.js'

const tools = ['get_invoice', 'refund_payment', 'pay_invoice', 'wipe', 'send_reminder'] as const
/** Arguments on which the rules decide otherwise. */
const inputs = [{ amount: 5 }, { amount: 900 }]

describe('who may use what', () => {
  const browser = chromiumOfSuite()

  const settings = (): Partial<GatewaySettings> => ({
    authn: { oidc: issuer.oidc },
    targets: { billing: `mcp+${server.url}` },
    admin: { port: 0, tokenRef: 'env:SVC_ADMIN', roles: { reviewer: ['approver'] } },
    entitlements: {
      default_plan: 'p',
      plans: { p: { allowlist: [] } },
      tenants: {
        acme: {
          plan: 'p',
          allowlist: ['billing/*'],
          denylist: ['billing/wipe'],
          roles: { contractor: { denylist: ['billing/get_invoice', 'billing/refund_payment'] } },
        },
      },
    },
    rules: [
      { name: 'refunds', tools: ['billing/refund_*'], then: 'escalate' },
      { name: 'large', tools: ['billing/pay_invoice'], when: 'args.amount > 100', then: 'escalate' },
    ],
    security: {
      side_effects: {
        require_idempotency_key: true,
        tools: { 'billing/*': false, 'billing/send_reminder': true },
      },
    },
  })

  const issuer = ofSuite(() => TestIssuer.start())
  const server = ofSuite(() =>
    startSessionServer('billing', (mcp) => {
      for (const tool of tools) mcp.registerTool(tool, {}, () => ({ content: [] }))
    }),
  )
  const rig = ofSuite(() => startConsole(browser, settings()))
  before(async () => {
    await call('PSOT', {}, { roles: [] })
  })

  /** `allow`, or the code of the refusal. */
  async function call(name: string, args: object, claims: object, headers = {}): Promise<string> {
    const authorization = `Bearer ${await issuer.sign({ ...claims })}`
    const params = { name, arguments: args }
    const more = { headers: { authorization, ...headers } }
    const reply = await lastMessage<{ error?: object; result?: { structuredContent?: object } }>(
      await postStateless(`${rig.gateway.url}/mcp/billing`, 'tools/call', params, more),
    )
    return /ESCALATION_PENDING|TOOL_NOT_ALLOWED/.exec(JSON.stringify(reply))?.[0] ?? 'allow'
  }

  async function judged(query: string): Promise<{ tool: string; verdict: string; called_only: boolean }[]> {
    const headers = { authorization: `Bearer ${adminToken}` }
    const { json } = await ask(rig.origin, `/api/policy/access?${query}`, { headers })
    return json['tools'] as { tool: string; verdict: string; called_only: boolean }[]
  }

  /** The verdict that live calls show: with each input, and with and without an idempotency key. */
  async function lived(tool: string, claims: object): Promise<string> {
    const found = new Set<string>()
    for (const [at, input] of inputs.entries())
      for (const headers of [{}, { 'idempotency-key': `${tool} ${at} ${JSON.stringify(claims)}` }])
        found.add(await call(tool, input, claims, headers))
    if (found.size > 1) return 'depends'
    const [only = ''] = found
    return only === 'allow' ? 'allow' : only === 'ESCALATION_PENDING' ? 'approval' : 'deny'
  }

  it('says of each tool and caller what live calls get', async () => {
    const callers = [
      ['tenant=acme', { roles: [] }],
      ['tenant=acme&kind=role&name=contractor', { roles: ['contractor'] }],
      ['tenant=acme&kind=user&name=ada%40example.com', { roles: [] }],
      ['tenant=globex', { org: 'globex', roles: [] }],
    ] as const
    const seen = new Set<string>()
    for (const [query, claims] of callers) {
      const said = await judged(query)
      for (const tool of tools) {
        const verdict = said.find((one) => one.tool === tool)?.verdict
        expect(verdict, `${tool} for ${query}`).to.equal(await lived(tool, claims))
        seen.add(String(verdict))
      }
    }
    expect([...seen]).to.have.members(['allow', 'approval', 'deny', 'depends'])
  })

  it('says of each call that is tried what the live call gets', async () => {
    const callers = [
      [{ tenant: 'acme', user: 'ada@example.com', roles: [] }, { roles: [] }],
      [{ tenant: 'acme', user: 'ada@example.com', roles: ['contractor'] }, { roles: ['contractor'] }],
      [
        { tenant: 'globex', user: 'ada@example.com', roles: [] },
        { org: 'globex', roles: [] },
      ],
    ] as const
    const codes = { allow: 'allow', escalate: 'ESCALATION_PENDING', deny: 'TOOL_NOT_ALLOWED' } as const
    const seen = new Set<string>()
    for (const [who, claims] of callers)
      for (const tool of tools)
        for (const input of inputs) {
          const { json } = await ask(rig.origin, '/api/policy/explain', {
            method: 'POST',
            headers: { authorization: `Bearer ${adminToken}`, 'content-type': 'application/json' },
            body: JSON.stringify({ ...who, server: 'billing', tool, arguments: input }),
          })
          const decision = json['decision'] as keyof typeof codes
          const named = `${tool} ${JSON.stringify(input)} of ${JSON.stringify(who)}`
          expect(codes[decision], named).to.equal(await call(tool, input, { ...claims, email: who.user }))
          seen.add(decision)
        }
    expect([...seen]).to.have.members(Object.keys(codes))
  })

  it('lists a tool apart that was called, and that its server does not list', async () => {
    const said = await judged('tenant=acme')
    expect(said.filter(({ called_only: only }) => only).map(({ tool }) => tool)).to.deep.equal(['PSOT'])
    const page = await rig.page('/console/policy/access')
    const apart = page.getByRole('table', { name: 'Called, not listed by its server' })
    await apart.getByText('billing/PSOT').waitFor()
    await apart.getByText('allowed, if it exists').waitFor()
    const known = page.getByRole('table', { name: 'Who may use what' })
    expect(await known.getByText('billing/PSOT').count()).to.equal(0)
    const row = (name: string) => known.locator('tbody tr', { hasText: name })
    await row('billing/refund_payment').getByText('needs approval').waitFor()
    await row('billing/pay_invoice').getByText('depends').waitFor()
    await row('billing/pay_invoice').getByText('escalate if args.amount > 100 (rule large)').waitFor()
    await row('billing/get_invoice').getByText('may call').waitFor()
    expect(await accessibilityViolations(page)).to.deep.equal([])
  })

  it('says of a tool that waits for people, and that its server does not list, what its call gets', async () => {
    const verdict = async (name: string) =>
      (await judged('tenant=acme')).find(({ tool }) => tool === name)?.verdict
    expect(await call('refund_paymnt', {}, { roles: [] })).to.equal('ESCALATION_PENDING')
    expect(await verdict('refund_paymnt')).to.equal('approval')
    const authorization = `Bearer ${await issuer.sign({})}`
    const client = await connect1(`${rig.gateway.url}/mcp/billing`, { headers: { authorization } })
    await client.listTools()
    await client.close()
    expect(await call('refund_paymet', {}, { roles: [] })).to.equal('TOOL_NOT_ALLOWED')
    expect(await verdict('refund_paymet')).to.equal('deny')
  })

  it('offers listed tools alone to be tried, and judges them in the version of their server', async () => {
    const page = await rig.page('/console/policy/try')
    expect(await page.getByLabel('Tool', { exact: true }).inputValue()).to.equal('billing/get_invoice')
    const offered = page.locator('datalist option')
    expect(
      await offered.evaluateAll((all: { value: string }[]) => all.map(({ value }) => value)),
    ).to.have.members(tools.map((tool) => `billing/${tool}`))
    await page.getByRole('button', { name: 'Try it' }).click()
    await page.locator('.badge.good', { hasText: 'allow' }).waitFor()
    expect(await page.locator('.said').textContent())
      .to.contain('get_invoice@1.')
      .and.not.contain('@unversioned')
    await page.getByLabel('Arguments, as JSON').fill('{')
    await page.getByRole('button', { name: 'Try it' }).click()
    await page.getByText('The arguments are not JSON.').waitFor()
    expect(await page.locator('.badge.good', { hasText: 'allow' }).count()).to.equal(0)
    await ready(page)
  })
})
