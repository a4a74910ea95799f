import { expect } from 'chai'
import type { Page } from 'playwright-core'
import { beginSchema } from 'svc-sdk/internal/console/sign-in'
import { ask, type HttpResponse } from '../app/admin/rig.js'
import { chromiumOfSuite } from '../support/chromium.js'
import { type OAuthProvider, registeredClient, startOAuthProvider } from '../support/oauth-provider.js'
import { ofEachTest } from '../support/parts.js'
import { startUpstream } from '../support/upstream.js'
import { ready, screenshot, startConsole } from './rig.js'
import { cookieOf, newSessionKey } from './session-client.js'

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
  const browser = chromiumOfSuite()

  const provider = ofEachTest(() => startOAuthProvider('openid'))
  const upstream = ofEachTest(() => startUpstream())
  const rig = ofEachTest(() => startConsole(browser, { policyYaml: policyOf(provider, upstream.url) }))

  const refund = async (amount: number) => {
    const response = await rig.gateway.invoke('/mcp/billing/refund_payment@1.0.0', { amount })
    return (await response.json()) as { escalation_id: string }
  }

  const postJson = (path: string, value: object, headers: Record<string, string> = {}) =>
    ask(rig.origin, path, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...headers },
      body: JSON.stringify(value),
    })

  async function signedIn(user: string, path: string, picture?: string): Promise<Page> {
    const page = await browser.open({ baseURL: rig.origin })
    await page.goto(path)
    await page.locator('#app[data-ready]').waitFor()
    if (picture !== undefined) await screenshot(page, picture)
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
    const page = await signedIn('bo', `/console/approvals/${id}`, 'sign-in')
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

  it('is refused for a callback that this tab did not begin, and says so', async () => {
    const page = await browser.open({ baseURL: rig.origin })
    await page.goto('/console/callback?code=x&state=y')
    await page.getByText('This tab has begun no such sign-in; begin again.').waitFor()
    expect([page.url(), await page.context().cookies()]).to.deep.equal([`${rig.origin}/console/callback`, []])
  })

  it('gives no session to who began it in another browser, with a cookie or a key of theirs', async () => {
    const begun = await postJson('/console/login', { path: '/console' })
    const state = new URL(String(begun.json['url'])).searchParams.get('state') ?? ''
    const cookie = cookieOf(begun)
    const { jwk } = newSessionKey()
    const finish = (query: string, value = {}, headers = {}) =>
      postJson('/console/callback', { key: jwk, query, ...value }, { cookie, ...headers })
    const iss = encodeURIComponent(provider.issuer)
    const whole = `?code=stolen&state=${state}&iss=${iss}`
    const refused: [string, Promise<HttpResponse>][] = [
      ['without the cookie', finish(whole, {}, { cookie: '' })],
      ['with the cookie of a session', finish(whole, {}, { cookie: cookie.replace('-login', '') })],
      ['with the cookie cut short', finish(whole, {}, { cookie: cookie.slice(0, -2) })],
      ['with a code of nobody', finish(whole)],
      ['with another state', finish(`?code=stolen&state=${state}x&iss=${iss}`)],
      ['with two states', finish(`${whole}&state=${state}`)],
      ['without a state', finish(`?code=stolen&iss=${iss}`)],
      ['from another issuer', finish(`?code=stolen&state=${state}&iss=https%3A%2F%2Fevil.example`)],
      ['from no issuer', finish(`?code=stolen&state=${state}`)],
      [
        'with an error',
        finish(`?error=access_denied&error_description=%3Cscript%3E&state=${state}&iss=${iss}`),
      ],
      ['with a token in place of a code', finish(`?access_token=x&state=${state}&iss=${iss}`)],
      ['with a key that is on no curve', finish(whole, { key: { ...jwk, y: 'A'.repeat(43) } })],
      ['with a private key', finish(whole, { key: { ...jwk, d: 'A'.repeat(43) } })],
      ['from another origin', finish(whole, {}, { origin: 'http://localhost:1' })],
      ['as a form', finish(whole, {}, { 'content-type': 'text/plain' })],
      ['with a key of the one who begins', postJson('/console/login', { path: '/console', key: jwk })],
    ]
    for (const [what, sent] of refused) {
      const { status, headers } = await sent
      expect([status >= 400 && status < 500, headers.get('set-cookie')], what).to.deep.equal([true, null])
    }
    const refusals = rig.gateway.records().filter(({ tool, error }) => /^admin\/sign_in/.test(tool) && error)
    expect(refusals).to.not.deep.equal([])
    // The key that counts is that of the browser to which the issuer leads back.
    const page = await signedIn('bo', '/console')
    const signIns = rig.gateway.records().filter(({ tool, error }) => /^admin\/sign_in/.test(tool) && !error)
    expect(signIns.map(({ principal }) => principal?.user)).to.deep.equal(['bo@example.com'])
    await page.close()
  })

  it('leads to pages of the console alone', () => {
    for (const path of ['/console', '/console/servers/my%20server?q=caller:bo,li#x', '/console?x=1']) {
      expect(beginSchema.parse({ path }).path).to.equal(path)
    }
    for (const path of [
      ...[
        '//evil.example',
        'https://evil.example',
        'javascript:alert(1)',
        '/consoles',
        '/console.evil.example',
        '/api/x',
      ],
      ...[
        '/console/..//evil.example',
        '/console/./x',
        '/console\\evil',
        '/console/a b',
        '/console/\u202e',
        `/console/${'x'.repeat(5000)}`,
      ],
    ]) {
      expect(beginSchema.parse({ path }).path, path).to.equal('/console')
    }
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
