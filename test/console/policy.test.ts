import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { readLog } from '@svc/plugin-audit/tools'
import { expect } from 'chai'
import type { GatewaySettings } from 'svc-sdk'
import { adminToken, ask } from '../app/admin/rig.js'
import { accessibilityViolations, chromiumOfSuite } from '../support/chromium.js'
import { ofSuite } from '../support/parts.js'
import { until } from '../support/stdio-target.js'
import { temporaryDir } from '../support/temporary-dir.js'
import { startUpstream } from '../support/upstream.js'
import { pastDay } from './past-day.js'
import { ready, screenshot, startConsole } from './rig.js'

describe('the policy in the console', () => {
  const home = temporaryDir()
  const browser = chromiumOfSuite()
  let day: Awaited<ReturnType<typeof pastDay>>

  const upstream = ofSuite(() => startUpstream())

  beforeEach(async () => {
    day = await pastDay(home.path, Date.now(), 500)
  })

  const settings = (): Partial<GatewaySettings> => ({ ...day, policyYaml: JSON.stringify(policy()) })

  const policy = () => ({
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
      {
        name: 'mail-stays-inside',
        tools: ['mail/send'],
        when: '!args.to.endsWith("@acme.example")',
        then: 'deny',
      },
      {
        name: 'sensitive-reads',
        tools: ['crm/find_customer'],
        when: 'args.fields == "all"',
        then: 'report',
        message: 'whole customers were read',
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
  })

  it('says who may use what, and turns a tool off and on again', async () => {
    await using rig = await startConsole(browser, settings())
    const page = await rig.page('/console/policy/access')
    const row = (name: string) => page.locator('tbody tr', { hasText: name })
    expect(await row('crm/delete_customer').textContent()).to.contain('denied')
    await page.getByRole('combobox').selectOption({ label: 'role support of acme' })
    await row('crm/delete_customer').getByText('may call').waitFor()
    expect(await row('crm/delete_customer').textContent()).to.contain('3 calls per day')
    await screenshot(page, 'policy-access')
    await row('billing/get_invoice').getByRole('button', { name: 'Turn off…' }).click()
    const dialog = page.getByRole('dialog')
    await dialog.getByText(/^\d+ now denied$/).waitFor()
    await dialog.getByText('− role support of acme may no longer call it').waitFor()
    expect(await dialog.getByText(/calls were of it/).textContent()).to.match(
      /^\d+ of 500 calls were of it\. $/,
    )
    await dialog.getByLabel('Reason, for the record').fill('the invoices are wrong')
    expect(await accessibilityViolations(page)).to.deep.equal([])
    await screenshot(page, 'policy-switch')
    await dialog.getByRole('button', { name: 'Turn it off' }).click()
    await row('billing/get_invoice')
      .getByText(/turned off.*until it is turned on again.*the invoices are wrong/)
      .waitFor()
    const refused = await rig.gateway.invoke('/mcp/billing/get_invoice@1.2.0')
    expect(refused.status).to.equal(403)
    await page.goto('/console/live')
    await page.locator('tr.denied a').first().click()
    await page
      .getByText(/the admin token blocked the tool billing\/get_invoice.*the invoices are wrong/)
      .waitFor()
    await page.goto('/console/policy/try')
    await page.getByLabel('Tool', { exact: true }).fill('billing/get_invoice')
    await page.getByRole('button', { name: 'Try it' }).click()
    await page
      .getByText(/^blocked:/)
      .first()
      .waitFor()

    await page.goto('/console/policy')
    const override = page.locator('.overrides li', { hasText: 'billing/get_invoice' })
    await override.waitFor()
    expect(await accessibilityViolations(page)).to.deep.equal([])
    await screenshot(page, 'policy')
    await override.getByRole('button', { name: 'Turn on…' }).click()
    await dialog.getByText('+ role support of acme may call it').waitFor()
    await dialog.getByText('1 now allowed').waitFor()
    await dialog.getByLabel('Reason, for the record').fill('they are right again')
    await dialog.getByRole('button', { name: 'Turn it on again' }).click()
    await override.waitFor({ state: 'detached' })
    expect((await rig.gateway.invoke('/mcp/billing/get_invoice@1.2.0')).status).to.equal(200)
    const steps: object[] = []
    for await (const { tool, event } of readLog(day.audit.dir))
      if (tool.startsWith('blocks/')) steps.push({ tool, ...(event as object) })
    expect(steps).to.containSubset([
      { tool: 'blocks/set@1', by: 'the admin token', reason: 'the invoices are wrong', until: null },
      { tool: 'blocks/lift@1', lifted_by: 'the admin token', lift_reason: 'they are right again' },
    ])
    await page.goto('/console/policy/access')
    await row('crm/find_customer').getByRole('link').click()
    await ready(page)
    expect(await row('role support of acme').textContent()).to.contain('may call')
  })

  it('says which calls the shadow policy would decide otherwise', async () => {
    const file = join(home.path, 'next.yaml')
    const stricter = { ...policy().rules[0], require: 'args.amount <= 50', name: 'all-refunds' }
    const [, , reads] = policy().rules
    const waiting = { ...reads, name: 'whole-customers-wait', then: 'escalate' }
    const admin = { ...policy().admin, roles: { reviewer: ['support-lead'] } }
    const { entitlements } = policy()
    entitlements.tenants.acme.allowlist.push('mail/send')
    writeFileSync(file, JSON.stringify({ ...policy(), admin, entitlements, rules: [stricter, waiting] }))
    await using rig = await startConsole(browser, {
      ...day,
      policyYaml: JSON.stringify({ ...policy(), shadow: { policy: file, max_share: 1 } }),
    })
    const headers = { authorization: `Bearer ${adminToken}` }
    const shadow = async () => (await ask(rig.origin, '/api/policy/shadow', { headers })).json
    await until(async () => (await shadow())['error'] !== 'the shadow policy is being loaded')
    for (const [tool, args, status] of [
      ['billing/refund_payment', { amount: 40 }, 200],
      ['billing/refund_payment', { amount: 60 }, 200],
      ['billing/refund_payment', { amount: 70 }, 200],
      ['mail/send', { to: 'li@other.example' }, 403],
      ['crm/find_customer', { fields: 'all' }, 200],
    ] as const)
      expect((await rig.gateway.invoke(`/mcp/${tool}@1.2.0`, args)).status).to.equal(status)
    await until(async () => (await shadow())['judged'] === 5)
    const page = await rig.page('/console/policy/shadow')
    await page.getByText(/^next\.yaml judged 5 of 5 calls\.$/).waitFor()
    const rows = page.getByRole('table', { name: 'What it would decide otherwise' }).locator('tbody tr')
    expect(await rows.allTextContents()).to.have.members([
      'mcp://billing/refund_payment@1.2.0allowdenyrule:all-refunds2',
      'mcp://crm/find_customer@1.2.0allowescalaterule:whole-customers-wait1',
      'mcp://mail/send@1.2.0denyallowtool_not_in_allowlist1',
    ])
    expect(await accessibilityViolations(page)).to.deep.equal([])
    await screenshot(page, 'policy-shadow')
    await page.goto('/console/policy/text')
    await page.locator('.source').waitFor()
    await screenshot(page, 'policy-text')
  })

  it('says why the shadow policy judges no call', async () => {
    const file = join(home.path, 'broken.yaml')
    writeFileSync(file, JSON.stringify({ rules: [] }))
    await using rig = await startConsole(browser, {
      ...day,
      policyYaml: JSON.stringify({ ...policy(), shadow: { policy: file } }),
    })
    const page = await rig.page('/console/policy/shadow')
    while ((await page.getByText('targets: missing').count()) === 0) await page.reload()
    await page.getByText('No call was judged yet.').waitFor()
  })

  it('tries a call, and says which rule decided', async () => {
    const before = upstream.calls.length
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
    // The console asks servers for their tools.
    expect(upstream.calls.slice(before).filter(({ body }) => body.includes('refund_payment'))).to.deep.equal(
      [],
    )
  })
})
