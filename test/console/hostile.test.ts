import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect } from 'chai'
import type { Page } from 'playwright-core'
import { adminToken, ask } from '../app/admin/rig.js'
import { definitionsRig, search } from '../app/definitions/rig.js'
import { accessibilityViolations, chromiumOfSuite } from '../support/chromium.js'
import { TestIssuer } from '../support/issuer.js'
import { postMcp } from '../support/mcp-post.js'
import { until } from '../support/stdio-target.js'
import { startUpstream } from '../support/upstream.js'
import { hiddenControls, hostileName, hostileText, longText } from './hostile.js'
import { startPayments } from './payments.js'
import { ready, signIn, startConsole } from './rig.js'

/** What a page may weigh, whatever others call themselves. */
const MAX_TEXT = 150_000

describe('every view of the console', () => {
  const browser = chromiumOfSuite()

  it('shows hostile values as text, with hidden characters by name, and without violations of WCAG AA', async () => {
    await using rig = await startPayments(browser)
    const user = `${hostileName.replaceAll(/[^\x20-\x7e]/g, '')}@example.com`
    const headers = { 'x-agent-ref': encodeURI('"><img src=x onerror=window.wasRun=1>') }
    const args = { amount: 240, [hostileText]: hostileText, nested: [hostileText, { note: longText }] }
    const id = await rig.waits('billing/refund_payment', args, { user, reason: hostileText, headers })
    await rig.waits('billing/refund_payment', { amount: 300, note: hostileText }, { user: 'li@example.com' })
    await rig.call('billing/refund_payment', { amount: 1, note: hostileText }, { user })
    await rig.call('crm/delete_contact', { id: hostileText }, { user })
    const reviewer = await rig.issuer.sign({ email: 'cy@example.com', sub: 'cy', roles: ['approver'] })
    const rejected = await rig.waits('billing/refund_payment', { amount: 999 }, { user })
    await ask(rig.origin, `/api/escalations/${rejected}/votes`, {
      method: 'POST',
      headers: { authorization: `Bearer ${reviewer}`, 'content-type': 'application/json' },
      body: JSON.stringify({ vote: 'reject', comment: hostileText }),
    })
    const page = await rig.pageOf('bo@example.com', '/console', {}, ['approver', 'ops'])
    const hash = encodeURIComponent(hostileText)
    const views = ['approvals', 'live', 'servers', 'policy', 'log', 'overview']
    await showsText(page, [
      `/console/approvals/${id}`,
      `/console/approvals/${rejected}`,
      ...views.map((view) => `/console/${view}/${hash}?q=${hash}`),
    ])
  })

  it('shows names of servers, tools, tenants, roles, sets and rules as text', async () => {
    const issuer = await TestIssuer.start()
    await using upstream = await startUpstream()
    const shadowIn = (home: string) => {
      const file = join(home, `shadow ${hostileText.replaceAll('/', '')}.yaml`)
      writeFileSync(file, JSON.stringify(candidate))
      return file
    }
    // A name of a policy may be as long as one likes; those that come with a call fit into its headers.
    // Claims of tokens have no control characters; tenants, servers and tools no slashes either.
    const name = `n${hostileText.replaceAll(/[/\p{Cc}]/gu, '')}`
    const [server, tool, role, set] = [
      `s${name}`,
      `delete_${name}`,
      `r${hostileText.replaceAll(/\p{Cc}/gu, '')}`,
      `f${hostileText}`,
    ]
    const lists = { allowlist: ['*/*'] }
    const policy = {
      tenant: name,
      targets: {
        [server]: upstream.url,
        [longText.replaceAll('/', '')]: upstream.url,
        billing: upstream.url,
      },
      authn: { oidc: { issuer: issuer.issuer, audience: issuer.audience, jwks_uri: issuer.jwksUri } },
      entitlements: {
        default_plan: hostileText,
        plans: { [hostileText]: { ...lists, calls_per_day: 1000 } },
        tenants: {
          [name]: {
            plan: hostileText,
            ...lists,
            roles: { [role]: lists, [longText.replaceAll(/\p{Cc}/gu, '')]: lists },
            users: { [name]: lists },
          },
        },
      },
      rules: [
        {
          name: 'refunds',
          tools: ['*/refund_*'],
          when: `args.note != ${JSON.stringify(hostileText)}`,
          then: 'escalate',
          message: hostileText,
          approval_set_id: set,
        },
      ],
      security: { side_effects: { approve_high_risk: true, human_escalation: { min_approvals: 2 } } },
      admin: {
        port: 0,
        tokenRef: 'env:SVC_ADMIN',
        console: { edit: true },
        roles: { operator: [role], reviewer: [longText] },
        approval_sets: { [set]: { users: [name], reviewer_roles: [`q${role}`] } },
      },
    }
    const candidate = {
      ...policy,
      rules: [{ name: 'all', tools: ['*/*'], then: 'deny', message: hostileText }],
    }
    await using rig = await startConsole(browser, (home) => ({
      policyYaml: JSON.stringify({ ...policy, shadow: { policy: shadowIn(home), max_share: 1 } }),
      audit: {
        gatewayName: hostileText,
        gatewayVersion: '1.0.0',
        dir: join(home, 'audit'),
        signer: { keyRef: `file://${join(home, 'key')}` },
      },
    }))
    const headers = { authorization: `Bearer ${adminToken}` }
    const shadow = () => ask(rig.origin, '/api/policy/shadow', { headers })
    await until(async () => (await shadow()).json['error'] !== 'the shadow policy is being loaded')
    const caller = { email: name, sub: name, org: name, roles: [role] }
    const authorization = `Bearer ${await issuer.sign(caller)}`
    const call = async (of: string, name: string) => {
      const response = await rig.gateway.invoke(
        `/mcp/${encodeURIComponent(of)}/${encodeURIComponent(name)}@1.0.0`,
        { note: hostileText.length },
        { authorization },
      )
      return (await response.json()) as { escalation_id?: string }
    }
    for (const of of [server, 'billing']) await call(of, tool)
    const { escalation_id: id } = await call(server, `refund_${name}`)
    expect(id).to.be.a('string')
    const bo = { ...caller, email: 'bo@example.com', sub: 'bo' }
    const reviewer = await issuer.sign({ ...bo, roles: [`q${role}`] })
    const vote = await ask(rig.origin, `/api/escalations/${id}/votes`, {
      method: 'POST',
      headers: { authorization: `Bearer ${reviewer}`, 'content-type': 'application/json' },
      body: JSON.stringify({ vote: 'approve', comment: hostileText }),
    })
    expect(vote.status, vote.text).to.equal(200)
    await until(async () => JSON.stringify((await shadow()).json['differences'] ?? '').includes('delete_'))
    const page = await browser.open({ baseURL: rig.origin })
    await page.goto('/console')
    await signIn(page, await issuer.sign(bo))
    const named = [server, tool].map((one) => `/console/servers/${encodeURIComponent(one)}`)
    await showsText(page, [
      `/console/approvals/${id}`,
      ...named,
      '/console/policy/access',
      '/console/policy/try',
      '/console/policy/shadow',
    ])
    await page.locator('tbody tr', { hasText: 'delete_' }).first().waitFor()
    await page.goto('/console/servers/billing')
    await ready(page)
    await page.getByRole('button', { name: 'Turn off…' }).first().click()
    await page.getByRole('dialog').getByText('What changes').waitFor()
    await isText(page, 'the dialog of a switch')
    await issuer[Symbol.asyncDispose]()
  })

  it('shows definitions that wait for an operator as text', async () => {
    await using source = await definitionsRig({ preset: 'guard' })
    const named = {
      ...search(`${hostileText}${longText}`),
      title: hostileText,
      annotations: { title: hostileText },
    }
    source.server.tools = [named, { ...search(hostileText), name: hostileText.replaceAll(/[/\p{Cc}]/gu, '') }]
    await using rig = await startConsole(browser, {
      targets: { files: source.upstream },
      protections: { preset: 'guard' },
    })
    const list = { jsonrpc: '2.0', id: 1, method: 'tools/list', params: {} }
    await (await postMcp(`${rig.gateway.url}/mcp/files`, list)).text()
    const page = await rig.page('/console/servers/files')
    await page.locator('.review .difference').first().waitFor()
    await isText(page, 'the definitions that wait')
    await page.getByRole('button', { name: 'Accept…' }).click()
    await isText(page, 'the question to accept them')
  })

  /** Visits every view of the rail, and `more`, of which the first shows a hidden character by its name. */
  async function showsText(page: Page, more: readonly string[]): Promise<void> {
    page.on('dialog', (dialog) => {
      throw new Error(`a page opened a dialog: ${dialog.message()}`)
    })
    const rail = await page
      .locator('.rail li a')
      .evaluateAll((links) => links.map((link) => link.getAttribute('href') ?? ''))
    expect(rail).to.include('/console/approvals')
    for (const path of [...rail, ...more]) {
      await page.goto(path)
      await ready(page)
      const text = await isText(page, path)
      if (path === more[0]) expect(text).to.include('RLO')
    }
  }

  /** Resolves to the text of the page, of which nothing ran and nothing is hidden. */
  async function isText(page: Page, name: string): Promise<string> {
    // biome-ignore lint/performance/useDomNodeTextContent: what is on the screen, without the state of the page
    const text = await page.locator('body').innerText()
    expect(hiddenControls.exec(text)?.[0], `${name} shows a hidden character`).to.equal(undefined)
    expect(text.length, name).to.be.below(MAX_TEXT)
    expect(await page.evaluate(() => 'wasRun' in globalThis), name).to.equal(false)
    expect(await accessibilityViolations(page), name).to.deep.equal([])
    return text
  }
})
