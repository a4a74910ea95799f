import { expect } from 'chai'
import { ask } from '../app/admin/rig.js'
import { accessibilityViolations, type Chromium, needsChromium, startChromium } from '../support/chromium.js'
import { ready, signIn, startConsole } from './rig.js'

describe('the console', () => {
  let browser: Chromium

  before(async function () {
    needsChromium(this)
    browser = await startChromium()
  })

  after(() => browser?.[Symbol.asyncDispose]())

  it('signs in with the admin token typed once, and signs out', async () => {
    await using rig = await startConsole(browser)
    const page = await browser.open({ baseURL: rig.origin })
    await page.goto('/console')
    expect(await page.title()).to.equal('Sign in · svc')
    expect(await accessibilityViolations(page)).to.deep.equal([])
    await page.getByLabel('Admin token').fill('not-the-token-0123456789')
    await page.getByRole('button', { name: 'Sign in with the token' }).click()
    await page.getByText('This is not the admin token.').waitFor()
    await signIn(page)
    expect(await page.title()).to.equal('Approvals · svc')
    expect(await accessibilityViolations(page)).to.deep.equal([])
    const [cookie] = await page.context().cookies()
    expect(cookie).to.include({ httpOnly: true, secure: true, sameSite: 'Strict', path: '/' })
    expect(cookie?.name).to.match(/^__Host-svc-[0-9a-f]{8}$/)
    const kept = { cookie: `${cookie?.name}=${cookie?.value}` }
    expect((await ask(rig.origin, '/api/session', { headers: kept })).status).to.equal(200)
    await page.getByRole('button', { name: 'Sign out' }).click()
    await page.getByLabel('Admin token').waitFor()
    expect((await ask(rig.origin, '/api/session', { headers: kept })).status).to.equal(401)
  })

  it('shows the keys at ?, and keeps the chosen colours', async () => {
    await using rig = await startConsole(browser)
    const page = await rig.page()
    await page.keyboard.press('?')
    await page.getByRole('dialog', { name: 'Keys' }).waitFor()
    expect(await accessibilityViolations(page)).to.deep.equal([])
    await page.keyboard.press('Escape')
    await page.getByRole('button', { name: 'Light or dark' }).click()
    await page.reload()
    await ready(page)
    expect(await page.locator('html').getAttribute('data-theme')).to.equal('dark')
  })

  it('has the protections of its pages in their headers', async () => {
    await using rig = await startConsole(browser)
    const { headers, text, status } = await ask(rig.origin, '/console/approvals', {})
    expect(status).to.equal(401)
    const policy = headers.get('content-security-policy') ?? ''
    expect(policy).to.match(/^default-src 'none'; script-src 'sha256-[A-Za-z0-9+/]{43}='; /)
    expect(policy).to.include("frame-ancestors 'none'").and.include("require-trusted-types-for 'script'")
    expect(policy).not.to.include('unsafe')
    expect(headers.get('cache-control')).to.equal('no-store')
    expect(text).not.to.match(/ on[a-z]+=| style=/)
  })

  it('goes from an address to localhost, where browsers keep its cookie', async () => {
    await using rig = await startConsole(browser)
    const { port } = new URL(rig.origin)
    const { status, headers } = await ask(`http://127.0.0.1:${port}`, '/console/approvals?x=1', {})
    expect([status, headers.get('location')]).to.deep.equal([307, `${rig.origin}/console/approvals?x=1`])
  })

  it('changes nothing for a cookie without the token of a page, or from another origin', async () => {
    await using rig = await startConsole(browser)
    const page = await rig.page()
    const [cookie] = await page.context().cookies()
    const headers = { cookie: `${cookie?.name}=${cookie?.value}`, 'content-type': 'application/json' }
    const post = (more: Record<string, string>) =>
      ask(rig.origin, '/api/policy/reload', { method: 'POST', body: '{}', headers: { ...headers, ...more } })
    expect((await post({})).json).to.include({ error: 'TOOL_NOT_ALLOWED' })
    expect((await post({ 'x-svc-csrf': 'A'.repeat(43) })).json).to.include({ error: 'TOOL_NOT_ALLOWED' })
    const state = await page.locator('#state').textContent()
    const { csrf } = JSON.parse(state ?? '')
    expect((await post({ 'x-svc-csrf': csrf, 'sec-fetch-site': 'same-site' })).status).to.equal(403)
    expect((await post({ 'x-svc-csrf': csrf, origin: 'http://localhost:1' })).status).to.equal(403)
    // Who has the cookie and the token still has not the key of the session.
    const { json } = await post({ 'x-svc-csrf': csrf })
    expect(json['message']).to.match(/^x-svc-proof: it is not signed by the key of the session/)
  })
})
