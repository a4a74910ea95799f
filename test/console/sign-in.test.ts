import { expect } from 'chai'
import type { Page } from 'playwright-core'
import { ask } from '../app/admin/rig.js'
import { type Chromium, needsChromium, startChromium } from '../support/chromium.js'
import { type OAuthProvider, registeredClient, startOAuthProvider } from '../support/oauth-provider.js'
import { startUpstream, type TestUpstream } from '../support/upstream.js'
import { type ConsoleRig, ready, startConsole } from './rig.js'

const policyOf = ({ issuer, oidc }: OAuthProvider, upstream: string) => `
tenant: acme
targets: { billing: ${upstream} }
authn:
  allowUnauthenticated: true
  oidc: { issuer: ${issuer}, audience: "https://edge.example/", jwks_uri: ${oidc.jwks_uri} }
rules:
  - { name: refunds, tools: [billing/refund_payment], then: escalate, approval_set_id: finance }
security:
  side_effects: { approve_high_risk: true, human_escalation: { min_approvals: 1 } }
admin:
  port: 0
  tokenRef: env:SVC_ADMIN
  console: { clientId: ${registeredClient} }
  roles: { reviewer: [approver] }
  approval_sets: { finance: { users: [bo@example.com, cy@example.com] } }
`

describe('the sign-in at an issuer', () => {
  let browser: Chromium
  let provider: OAuthProvider
  let upstream: TestUpstream
  let rig: ConsoleRig

  before(async function () {
    needsChromium(this)
    browser = await startChromium()
  })

  beforeEach(async () => {
    provider = await startOAuthProvider('openid')
    upstream = await startUpstream()
    rig = await startConsole(browser, { policyYaml: policyOf(provider, upstream.url) })
  })

  afterEach(async () => {
    await rig[Symbol.asyncDispose]()
    await upstream[Symbol.asyncDispose]()
    await provider[Symbol.asyncDispose]()
  })

  after(() => browser?.[Symbol.asyncDispose]())

  const refund = async (amount: number) => {
    const response = await rig.gateway.invoke('/mcp/billing/refund_payment@1.0.0', { amount })
    return (await response.json()) as { escalation_id: string }
  }

  async function signedIn(user: string, path: string): Promise<Page> {
    const page = await browser.open({ baseURL: rig.origin })
    await page.goto(path)
    await page.locator('#app[data-ready]').waitFor()
    await page.getByRole('button', { name: 'Sign in', exact: true }).click()
    await page.locator('input[name=login]').fill(user)
    await page.locator('input[name=password]').fill('any')
    await page.locator('button[type=submit]').click()
    await page.getByRole('button', { name: 'Continue' }).click()
    await ready(page)
    return page
  }

  it('leads back to the link that was opened, with a session of the person, who may vote', async () => {
    const { escalation_id: id } = await refund(240)
    const page = await signedIn('bo', `/console/approvals/${id}`)
    expect(page.url()).to.equal(`${rig.origin}/console/approvals/${id}`)
    await page
      .getByRole('button', { name: /^Approve/ })
      .and(page.locator(':enabled'))
      .waitFor()
    await page.keyboard.press('a')
    const sent = page.waitForRequest((request) => request.method() === 'POST')
    await page.getByLabel(/with a comment/).press('Control+Enter')
    await page.locator('.steps').getByText('approved').waitFor()
    await page.getByText('bo@example.com of acme').first().waitFor()
    const [session, ...others] = await page.context().cookies(rig.origin)
    expect([session?.sameSite, others.map(({ name }) => name)]).to.deep.equal(['Strict', []])
    // The same request once more, with everything that a thief of the cookie could copy.
    const vote = await sent
    const again = await ask(rig.origin, new URL(vote.url()).pathname, {
      method: 'POST',
      headers: { ...(await vote.allHeaders()), cookie: `${session?.name}=${session?.value}` },
      body: vote.postData() ?? '',
    })
    expect(again.json['message']).to.match(/^x-svc-proof: it was used before/)
  })

  it('lets one of two reviewers decide, and tells the other who was faster', async () => {
    await refund(240)
    const [bo, cy] = [await signedIn('bo', '/console'), await signedIn('cy', '/console')]
    for (const page of [bo, cy]) {
      await page
        .getByRole('button', { name: /^Approve/ })
        .and(page.locator(':enabled'))
        .waitFor()
      await page.keyboard.press('a')
      await page.getByLabel(/with a comment/).waitFor()
    }
    await Promise.all([bo, cy].map((page) => page.getByLabel(/with a comment/).press('Control+Enter')))
    for (const page of [bo, cy]) {
      await page
        .getByText(/(bo|cy)@example\.com of acme.* decided \d+ s ago/s)
        .first()
        .waitFor()
    }
  })

  it('is refused for a callback that this browser did not begin', async () => {
    const { status, json } = await ask(rig.origin, '/console/callback?code=x&state=y', {})
    expect([status, json['error']]).to.deep.equal([401, 'UNAUTHENTICATED'])
  })

  it('is asked for again when the session has ended elsewhere', async () => {
    await refund(240)
    const page = await signedIn('bo', '/console')
    const other = await page.context().newPage()
    await other.goto(`${rig.origin}/console`)
    await ready(other)
    await other.getByRole('button', { name: 'Sign out' }).click()
    await page.locator('.connection').getByText('signed out').waitFor()
  })
})
