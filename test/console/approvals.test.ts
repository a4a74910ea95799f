import { expect } from 'chai'
import type { Page } from 'playwright-core'
import { ask } from '../app/admin/rig.js'
import { accessibilityViolations, type Chromium, needsChromium, startChromium } from '../support/chromium.js'
import { type Payments, startPayments } from './payments.js'
import { ready, screenshot } from './rig.js'

const phone = { viewport: { width: 390, height: 844 }, hasTouch: true }

describe('the view of approvals', () => {
  let browser: Chromium
  let rig: Payments

  before(async function () {
    needsChromium(this)
    browser = await startChromium()
  })

  beforeEach(async () => {
    rig = await startPayments(browser)
  })

  afterEach(() => rig[Symbol.asyncDispose]())

  after(() => browser?.[Symbol.asyncDispose]())

  const rowOf = (page: Page, tool: string) => page.locator('.waiting li', { hasText: tool })

  it('shows what waits, why and for whom, and lets a reviewer decide by keys', async () => {
    await rig.call('billing/get_invoice', { invoice: 'INV-1001' })
    await rig.call('billing/refund_payment', { invoice: 'INV-0988', amount: 40 })
    await rig.call('crm/delete_contact', { id: 77 })
    await rig.call(
      'billing/refund_payment',
      { invoice: 'INV-0990', amount: 75 },
      { user: 'dana@example.com' },
    )
    const id = await rig.waits(
      'billing/refund_payment',
      { invoice: 'INV-1001', amount: 240, currency: 'EUR', note: 'charged twice\u202e' },
      { reason: 'The customer was charged twice for invoice INV-1001, so I refund the second payment.' },
    )
    await rig.waits('crm/export_contacts', { segment: 'all', format: 'csv' }, { user: 'dana@example.com' })
    await rig.waits(
      'billing/refund_payment',
      { invoice: 'INV-1017', amount: 180 },
      { user: 'li@example.com' },
    )
    const page = await rig.pageOf('mia@example.com', '/console')
    await page
      .getByRole('heading', { name: /agent-7 for bob@example\.com wants refund_payment, amount 240/ })
      .waitFor()
    await page.getByText('args.amount > 100').waitFor()
    await page.getByText('1 hidden character: RLO, reverses the text after it').waitFor()
    await page.getByText(/^\d+:\d\d left, then rejected$/).waitFor()
    expect(await page.locator('.consequences').textContent()).to.match(/Nobody decides\s*rejected at \d\d:/)
    await page.getByText('missing: a reviewer of acme (you are one). One').waitFor({ timeout: 10_000 })
    const reader = await rig.pageOf('al@example.com', `/console/approvals/${id}`, {}, ['auditor'])
    await reader.getByText('missing: a reviewer of acme. One').waitFor({ timeout: 10_000 })
    expect(await rowOf(page, '240').textContent()).to.match(/agent-7 for bob@example\.com.*amount 240/s)
    await page.locator('.voter', { hasText: 'mia@example.com' }).waitFor()
    await page
      .getByRole('button', { name: /Approve/ })
      .and(page.locator(':enabled'))
      .waitFor()
    expect(await accessibilityViolations(page)).to.deep.equal([])
    await screenshot(page, 'approvals')
    await page.keyboard.press('a')
    await page.getByLabel(/Approve with a comment/).press('Escape')
    await page.locator('.choices .approve:focus').waitFor()
    await page.keyboard.press('a')
    await page.getByLabel(/Approve with a comment/).fill('Seen the invoice')
    await page.keyboard.press('Control+Enter')
    await page.getByText('approved', { exact: true }).first().waitFor()
    await rowOf(page, '240').waitFor({ state: 'detached' })
    const response = await rig.call('billing/refund_payment', {
      invoice: 'INV-1001',
      amount: 240,
      currency: 'EUR',
      note: 'charged twice\u202e',
    })
    expect(response.status).to.equal(200)
    await page
      .locator('.steps')
      .getByText(/^ok, \d+ ms$/)
      .waitFor()
    expect(await page.locator('.steps li').allTextContents()).to.include.members(['approved', 'sent'])
    expect(await page.locator('#approval-title:focus').count()).to.equal(1)
    await screenshot(page, 'approved')
    expect(page.url()).to.equal(`${rig.origin}/console/approvals/${id}`)
    expect(await accessibilityViolations(page)).to.deep.equal([])
  })

  it('says that nothing waits, and shows what comes at once', async () => {
    const page = await rig.pageOf('bo@example.com', '/console/approvals')
    await page.getByText('Nothing waits').waitFor()
    expect(await accessibilityViolations(page)).to.deep.equal([])
    await rig.waits('billing/refund_payment', { amount: 240 })
    await rowOf(page, 'refund_payment').waitFor()
    await page.getByRole('heading', { name: /wants refund_payment/ }).waitFor()
    await page.locator('.rail .count', { hasText: '1' }).waitFor()
    await page.clock.install()
    await page.reload()
    await ready(page)
    await page.clock.fastForward('13:30')
    await rowOf(page, 'refund_payment')
      .getByText(/^only 1:\d\d left$/)
      .waitFor()
    expect(await accessibilityViolations(page)).to.deep.equal([])
  })

  it('takes no vote in the first second of a call, nor before the end of a long input was seen', async () => {
    await rig.waits('billing/refund_payment', { amount: 240 })
    await rig.waits('billing/refund_payment', {
      amount: 300,
      lines: Array.from({ length: 400 }, (_, line) => `line ${line}`),
    })
    const page = await rig.pageOf('bo@example.com', '/console')
    const approve = page.getByRole('button', { name: /^Approve/ })
    await approve.and(page.locator(':enabled')).waitFor()
    await page.keyboard.press('j')
    await page.getByRole('heading', { name: /amount 300/ }).waitFor()
    expect(await approve.isEnabled()).to.equal(false)
    await page.keyboard.press('a')
    expect(await page.getByLabel(/with a comment/).count()).to.equal(0)
    await page.getByText('Scroll to the end of the input first.').waitFor()
    await page.keyboard.press('End')
    await approve.and(page.locator(':enabled')).waitFor()
    await page.keyboard.press('a')
    await page.getByLabel(/with a comment/).press('Control+Enter')
    await page.locator('.steps').getByText('approved').waitFor()
  })

  it('has emergency calls until their review is done, the oldest of all that waits first', async () => {
    const emergency = { roles: ['oncall'], headers: { 'x-escalation-emergency': 'The shop is down.' } }
    const first = await rig.waits('billing/refund_payment', { amount: 101 })
    const ran = await rig.call('billing/refund_payment', { amount: 102 }, emergency)
    expect(ran.status).to.equal(200)
    await rig.waits('billing/refund_payment', { amount: 103 })
    const page = await rig.pageOf('bo@example.com', '/console')
    const rows = page.locator('.waiting .row')
    await rows.nth(2).waitFor()
    expect(await rows.allTextContents()).to.satisfy((texts: string[]) =>
      [/amount 101/, /to review.*amount 102/s, /amount 103/].every((part, at) => part.test(texts[at] ?? '')),
    )
    await page.locator('.rail .count', { hasText: '3' }).waitFor()
    const token = await rig.issuer.sign({ email: 'cy@example.com', sub: 'cy', roles: ['approver'] })
    const { json } = await ask(rig.origin, '/api/escalations?status=undecided&first=oldest&limit=1', {
      headers: { authorization: `Bearer ${token}` },
    })
    expect(json).to.have.nested.property('escalations[0].id', first)
    expect(json).to.have.property('more', true)
    await page.keyboard.press('j')
    await page.getByText('It ran in an emergency, before it was approved').waitFor()
    await page.getByText('The caller, in an emergency, decided').waitFor()
    await page.getByText('the review stays open').waitFor()
    expect(await accessibilityViolations(page)).to.deep.equal([])
    await page
      .getByRole('button', { name: /^Approve/ })
      .and(page.locator(':enabled'))
      .waitFor()
    await page.keyboard.press('a')
    await page.getByLabel(/with a comment/).press('Control+Enter')
    await page.getByText('review confirmed').waitFor()
    await page.locator('.rail .count', { hasText: '2' }).waitFor()
    expect(await rows.count()).to.equal(2)
  })

  it('says who was faster', async () => {
    await rig.waits('billing/refund_payment', { amount: 240 })
    const [bo, cy] = await Promise.all([
      rig.pageOf('bo@example.com', '/console'),
      rig.pageOf('cy@example.com', '/console'),
    ])
    for (const page of [bo, cy]) {
      await page
        .getByRole('button', { name: /^Approve/ })
        .and(page.locator(':enabled'))
        .waitFor()
      await page.keyboard.press('a')
    }
    // Cy's page hears nothing of Bo's vote before Cy votes.
    await cy.context().setOffline(true)
    await bo.getByLabel(/with a comment/).press('Control+Enter')
    await bo.locator('.steps').getByText('approved').waitFor()
    await cy.context().setOffline(false)
    await cy.getByLabel(/with a comment/).press('Control+Enter')
    await cy
      .getByText(/bo@example\.com of acme.* decided \d+ s ago/s)
      .first()
      .waitFor()
  })

  it('is two pages on a phone', async () => {
    const id = await rig.waits(
      'billing/refund_payment',
      { invoice: 'INV-1001', amount: 240 },
      { reason: 'Charged twice.' },
    )
    const page = await rig.pageOf('mia@example.com', '/console', phone)
    await rowOf(page, 'refund_payment').waitFor()
    expect(await page.getByRole('heading', { name: /amount 240/ }).isVisible()).to.equal(false)
    // The buttons appear where the row was: a second tap must not hit them.
    await page.locator('.ballot .reject:enabled').waitFor({ state: 'attached' })
    await rowOf(page, 'refund_payment').click()
    await page.getByRole('heading', { name: /amount 240/ }).waitFor()
    expect(await page.locator('.ballot .reject').isEnabled()).to.equal(false)
    expect(page.url()).to.equal(`${rig.origin}/console/approvals/${id}`)
    await page
      .getByRole('button', { name: /^Approve/ })
      .and(page.locator(':enabled'))
      .waitFor()
    await screenshot(page, 'approvals-phone')
    expect(await accessibilityViolations(page)).to.deep.equal([])
    await page.goBack()
    await rowOf(page, 'refund_payment').click()
    await page.locator('#approval-title:focus').waitFor()
    await page.getByText('All that waits').click()
    await rowOf(page, 'refund_payment').locator('a:focus').waitFor()
  })

  it('shows a caller the state of their own call, without a vote, and nothing to anybody else', async () => {
    const id = await rig.waits('billing/refund_payment', { amount: 240 })
    const bob = await rig.pageOf('bob@example.com', `/console/approvals/${id}`, {}, [])
    await bob.getByText('It waits for a decision.').waitFor()
    await bob.getByText(/left, then rejected$/).waitFor()
    expect(await bob.getByRole('button', { name: /Approve/ }).count()).to.equal(0)
    const asked: string[] = []
    bob.on('request', (request) => asked.push(new URL(request.url()).pathname))
    await bob.reload()
    await bob.getByText('It waits for a decision.').waitFor()
    expect(await accessibilityViolations(bob)).to.deep.equal([])
    expect(asked).to.include(`/console/approvals/${id}`).and.not.include('/api/events')
    const mal = await rig.pageOf('mal@example.com', `/console/approvals/${id}`, {}, [])
    await mal.getByText('Not found').waitFor()
    expect((await mal.reload())?.status()).to.equal(404)
    await ready(mal)
    const globex = await rig.pageOf(
      'gus@globex.example',
      `/console/approvals/${id}`,
      {},
      ['approver'],
      'globex',
    )
    await globex.getByText('Not found').waitFor()
    expect(await (await rig.call('billing/refund_payment', { amount: 240 })).json()).to.include({
      escalation_status: 'pending',
    })
  })

  it('keeps what it showed when the gateway does not respond, and says since when', async () => {
    await rig.waits('billing/refund_payment', { amount: 240 })
    const page = await rig.pageOf('bo@example.com', '/console')
    await page
      .getByRole('button', { name: /^Approve/ })
      .and(page.locator(':enabled'))
      .waitFor()
    await page.keyboard.press('r')
    await page.context().setOffline(true)
    await page.getByLabel(/with a comment/).press('Control+Enter')
    await page.getByText('The gateway does not respond.').first().waitFor()
    await page
      .locator('.stale')
      .getByRole('heading', { name: /wants refund_payment/ })
      .waitFor()
    await page.context().setOffline(false)
    await page.getByRole('button', { name: 'Try again' }).click()
    await page.locator('.stale').waitFor({ state: 'detached' })
  })
})
