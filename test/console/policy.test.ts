import { readLog } from '@svc/plugin-audit/tools'
import { expect } from 'chai'
import type { GatewaySettings } from 'svc-sdk'
import { accessibilityViolations, type Chromium, needsChromium, startChromium } from '../support/chromium.js'
import { temporaryDir } from '../support/temporary-dir.js'
import { startUpstream, type TestUpstream } from '../support/upstream.js'
import { pastDay } from './past-day.js'
import { ready, screenshot, startConsole } from './rig.js'

describe('the policy in the console', () => {
  const home = temporaryDir()
  let browser: Chromium
  let upstream: TestUpstream
  let day: Awaited<ReturnType<typeof pastDay>>

  before(async function () {
    needsChromium(this)
    browser = await startChromium()
    upstream = await startUpstream()
  })

  beforeEach(async () => {
    day = await pastDay(home.path, Date.now(), 500)
  })

  after(async () => {
    await browser?.[Symbol.asyncDispose]()
    await upstream?.[Symbol.asyncDispose]()
  })

  const settings = (): Partial<GatewaySettings> => ({
    ...day,
    authn: {
      oidc: { issuer: 'https://id.example.com/', audience: 'gw', jwks_uri: 'https://id.example.com/jwks' },
      allowUnauthenticated: true,
    },
    targets: { billing: upstream.url, crm: upstream.url, mail: upstream.url },
    admin: { port: 0, tokenRef: 'env:SVC_ADMIN', console: { edit: true } },
    entitlements: {
      default_plan: 'basic',
      plans: { basic: { allowlist: [], calls_per_day: 1_000 } },
      tenants: {
        acme: {
          plan: 'basic',
          allowlist: ['billing/*', 'crm/find_customer'],
          roles: {
            support: { allowlist: ['crm/*'], per_tool: { 'crm/delete_customer': { calls_per_day: 3 } } },
          },
        },
      },
    },
    rules: [
      {
        name: 'large-refunds',
        tools: ['billing/refund_payment'],
        require: 'args.amount <= 500',
        then: 'deny',
        message: 'refunds above 500 are made by the finance team',
      },
    ],
  })

  it('has each rule in words, with how often it decided', async () => {
    await using rig = await startConsole(browser, settings())
    const page = await rig.page('/console/policy')
    const rule = page.locator('.rules li', { hasText: 'large-refunds' })
    expect(await rule.textContent()).to.match(
      /large-refunds\d+ callsA call of billing\/refund_payment unless args\.amount <= 500 is denied\.“refunds above 500/,
    )
    expect(await accessibilityViolations(page)).to.deep.equal([])
    await screenshot(page, 'policy')
  })

  it('says who may use what, and turns a tool off and on again', async () => {
    await using rig = await startConsole(browser, settings())
    const page = await rig.page('/console/policy/access')
    const row = (name: string) => page.locator('tbody tr', { hasText: name })
    expect(await row('crm/delete_customer').textContent()).to.contain('denied')
    await page.getByRole('combobox').selectOption({ label: 'role support of acme' })
    await row('crm/delete_customer').getByText('may call').waitFor()
    expect(await row('crm/delete_customer').textContent()).to.contain('3 calls per day')
    await row('billing/get_invoice').getByRole('button', { name: 'Turn off…' }).click()
    const dialog = page.getByRole('dialog')
    await dialog.getByText(/In the last 24 hours \d+ calls of it passed/).waitFor()
    await dialog.getByText('anyone of acme').waitFor()
    expect(await accessibilityViolations(page)).to.deep.equal([])
    await screenshot(page, 'policy-switch')
    await dialog.getByLabel('Reason, for the record').fill('the invoices are wrong')
    await dialog.getByRole('button', { name: 'Turn it off' }).click()
    await row('billing/get_invoice').getByText('turned off').waitFor()
    const refused = await rig.gateway.invoke('/mcp/billing/get_invoice@1.2.0')
    expect(refused.status).to.equal(403)
    await row('billing/get_invoice').getByRole('button', { name: 'Turn on…' }).click()
    await dialog.getByRole('button', { name: 'Turn it on' }).click()
    await row('billing/get_invoice').getByText('may call').waitFor()
    expect((await rig.gateway.invoke('/mcp/billing/get_invoice@1.2.0')).status).to.equal(200)
    const steps: string[] = []
    for await (const { tool } of readLog(day.audit.dir)) if (tool.startsWith('blocks/')) steps.push(tool)
    expect(steps).to.deep.equal(['blocks/set@1', 'blocks/lift@1'])
    await row('crm/find_customer').getByRole('link').click()
    await ready(page)
    expect(await row('role support of acme').textContent()).to.contain('may call')
    await screenshot(page, 'policy-access')
  })

  it('tries a call, and says which rule decided', async () => {
    await using rig = await startConsole(browser, settings())
    const page = await rig.page('/console/policy/try')
    await page.getByLabel('Tool', { exact: true }).fill('billing/refund_payment')
    await page.getByLabel('Arguments, as JSON').fill('{"amount": 900}')
    await page.getByRole('button', { name: 'Try it' }).click()
    await page.locator('.badge.bad', { hasText: 'deny' }).waitFor()
    await page.getByText('rule:large-refunds').first().waitFor()
    expect(await accessibilityViolations(page)).to.deep.equal([])
    await screenshot(page, 'policy-try')
    await page.getByLabel('Arguments, as JSON').fill('{')
    await page.getByRole('button', { name: 'Try it' }).click()
    await page.getByText('The arguments are not JSON.').waitFor()
    expect(upstream.calls.some(({ path }) => path.includes('refund'))).to.equal(false)
  })
})
