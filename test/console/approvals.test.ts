import { bind, tokens } from '@svc/core'
import { MemoryKeyValueStore } from '@svc/core/store'
import { EscalationStore } from '@svc/plugin-enforcement'
import { expect } from 'chai'
import type { Page } from 'playwright-core'
import { adminToken, ask } from '../app/admin/rig.js'
import { accessibilityViolations, chromiumOfSuite } from '../support/chromium.js'
import { ofEachTest } from '../support/parts.js'
import { phone, startPayments } from './payments.js'
import { ready, screenshot } from './rig.js'

describe('the view of approvals', () => {
  const browser = chromiumOfSuite()

  const rig = ofEachTest(() => startPayments(browser))

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
      { invoice: 'INV-1017', amount: 180, currency: 'EUR' },
      { user: 'li@example.com' },
    )
    const page = await rig.pageOf('mia@example.com', '/console')
    await page
      .getByRole('heading', {
        name: /^Agent agent-7 for user bob@example\.com wants refund_payment, amount 240/,
      })
      .waitFor()
    await page.getByText('args.amount > 100').waitFor()
    await page.getByText('1 hidden character: RLO, reverses the text after it').waitFor()
    await page.getByText(/^14 min \d+ s left, then rejected$/).waitFor()
    await page.getByText('high risk may have side effects, by its name and method').waitFor()
    await rowOf(page, 'refund_payment').first().getByText('hidden characters').waitFor()
    await page.locator('#hidden-warning', { hasText: 'Hidden characters: see above' }).waitFor()
    await page.locator('.approve[aria-describedby=hidden-warning]').waitFor()
    expect(await page.locator('.consequences').textContent()).to.match(
      /Nobody decides\s*rejected at \d\d:\d\d:\d\d UTC\+[12]/,
    )
    const [ofBob, ofRefunds] = await page.locator('.call-list').allInnerTexts()
    expect(ofBob)
      .to.match(/refund_payment\s*amount 240/)
      .and.match(/get_invoice\s*allowed/)
    expect(ofRefunds).to.match(/dana@example\.com\s*amount 75/)
    await page.getByText('The vote of one reviewer of acme (you are one) decides.').waitFor()
    const reader = await rig.pageOf('al@example.com', `/console/approvals/${id}`, {}, ['auditor'])
    await reader.getByText('The vote of one reviewer of acme decides.').waitFor()
    expect(await rowOf(page, '240').textContent()).to.match(/agent-7 for user bob@example\.com.*amount 240/s)
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
    await page.locator('#approval-title:focus').waitFor()
    expect(await page.evaluate<number>('scrollY')).to.equal(0)
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
    const left = rowOf(page, 'refund_payment').locator('.left')
    await left.getByText(/^1[45] min left$/).waitFor()
    const colour = () =>
      page.evaluate<string>("getComputedStyle(document.querySelector('.waiting .left')).color")
    const amber = 'rgb(138, 75, 0)'
    expect(await colour()).to.not.equal(amber)
    await page.clock.fastForward('13:30')
    await left.getByText(/^only 1 min \d+ s left$/).waitFor()
    expect(await colour()).to.equal(amber)
    expect(await accessibilityViolations(page)).to.deep.equal([])
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

  it('shows a thousand waiting calls, a page at a time, and changes the one row that changed', async () => {
    const values = new MemoryKeyValueStore()
    const store = new EscalationStore(values)
    await using many = await startPayments(browser, undefined, '', {
      configure: (container) => bind(container, tokens.EscalationStore, { useValue: values }),
    })
    await many.waits('billing/refund_payment', { invoice: 'INV-0', amount: 240 })
    const [first] = await store.page(undefined, 1)
    for (let n = 1; n < 1000; n++) {
      const [id, createdAt] = [`esc_${n}`, (first?.createdAt ?? 0) + n]
      // Equal calls of one caller would be folded.
      const value = { ...JSON.parse(first?.body ?? ''), id, fingerprint: id, principal: id, createdAt }
      const entry = { ...first!, id, fingerprint: id, principal: id, createdAt, body: JSON.stringify(value) }
      await store.open(entry, { replaces: undefined, maxPending: 1, maxInputBytes: 1, now: 0 })
    }
    const page = await many.pageOf('mia@example.com', '/console')
    const rows = page.locator('.waiting li')
    expect(await rows.count()).to.equal(50)
    for (const shown of [100, 200, 400, 800, 1000]) {
      // The end of the list asks for as many again.
      await page.locator('.waiting-pane').evaluate((pane: { scrollTop: number; scrollHeight: number }) => {
        pane.scrollTop = pane.scrollHeight
      })
      await rows.nth(shown - 1).waitFor({ state: 'attached' })
    }
    expect(await page.locator('.waiting-pane .hint').count()).to.equal(0)
    await page.keyboard.press('j')
    await rows.nth(1).locator('a:focus[aria-current]').waitFor()
    await rows.evaluateAll((all: { same?: boolean }[]) => {
      for (const row of all) row.same = true
    })
    await many.vote('esc_500', 'reject')
    await page.locator('.waiting li[data-id=esc_500]').waitFor({ state: 'detached' })
    const kept = await rows.evaluateAll((all: { same?: boolean }[]) => all.filter(({ same }) => same).length)
    expect(kept).to.equal(999)
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
    // The vote covers the end of the input.
    await page.keyboard.press('End')
    await page
      .getByRole('button', { name: /^Approve/ })
      .and(page.locator(':enabled'))
      .waitFor()
    await page.keyboard.press('Home')
    while ((await page.evaluate<number>('scrollY')) > 0) await page.keyboard.press('Home')
    await screenshot(page, 'approvals-phone')
    expect(await accessibilityViolations(page)).to.deep.equal([])
    await page.goBack()
    await rowOf(page, 'refund_payment').click()
    await page.locator('#approval-title:focus').waitFor()
    await page.getByText('All that waits').click()
    await rowOf(page, 'refund_payment').locator('a:focus').waitFor()
    await rowOf(page, 'refund_payment').getByRole('checkbox').tap()
    await page.getByRole('button', { name: /^Vote together/ }).tap()
    await page
      .getByRole('button', { name: /^Approve 1 call/ })
      .and(page.locator(':enabled'))
      .waitFor()
    expect(await accessibilityViolations(page)).to.deep.equal([])
    await page.goBack()
    await rowOf(page, 'refund_payment').getByRole('checkbox', { checked: true }).waitFor()
  })

  it('shows a caller the state of their own call, without a vote, and nothing to anybody else', async () => {
    const id = await rig.waits('billing/refund_payment', { amount: 240 })
    const bob = await rig.pageOf('bob@example.com', `/console/approvals/${id}`, {}, [])
    await bob.getByText('It waits for a decision.').waitFor()
    await bob.getByText(/left, then rejected$/).waitFor()
    expect(await bob.getByRole('button', { name: /Approve/ }).count()).to.equal(0)
    expect(await bob.locator('.rail li').allTextContents()).to.deep.equal(['Approvals'])
    const asked: string[] = []
    bob.on('request', (request) => asked.push(new URL(request.url()).pathname))
    await bob.reload()
    await bob.getByText('It waits for a decision.').waitFor()
    expect(await accessibilityViolations(bob)).to.deep.equal([])
    await screenshot(bob, 'caller')
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
    await page.locator('main .stale').first().waitFor({ state: 'detached' })
  })

  it('shows what came while the stream of events was lost', async () => {
    const first = await rig.waits('billing/refund_payment', { amount: 240 })
    const page = await rig.pageOf('bo@example.com', '/console')
    await page.locator('.rail .count', { hasText: '1' }).waitFor()
    await page.clock.install()
    const show = (hidden: boolean) =>
      page.evaluate((value) => {
        const { document } = globalThis as unknown as { document: EventTarget }
        Object.defineProperty(document, 'hidden', { value, configurable: true })
        document.dispatchEvent(new Event('visibilitychange'))
      }, hidden)
    await show(true)
    await page.clock.fastForward(31_000)
    const second = await rig.waits('billing/refund_payment', { amount: 250 })
    await rig.vote(first, 'reject')
    await show(false)
    await page.locator(`.waiting li[data-id=${second}]`).waitFor()
    await page.locator('.detail-pane').getByText('cy@example.com').first().waitFor()
  })

  it('says so to one whose access was removed, by a block or from the roles of the policy', async () => {
    const [bo, cy] = await Promise.all([
      rig.pageOf('bo@example.com', '/console'),
      rig.pageOf('cy@example.com', '/console'),
    ])
    const removed = (page: Page) => page.locator('.connection').getByText('access removed').waitFor()
    const headers = { authorization: `Bearer ${adminToken}`, 'content-type': 'application/json' }
    const body = JSON.stringify({
      kind: 'principal',
      pattern: 'bo@example.com',
      reason: 'left',
      for_sec: 600,
    })
    const { status } = await ask(rig.origin, '/api/blocks', { method: 'POST', headers, body })
    expect(status).to.equal(200)
    await removed(bo)
    const { issuer, audience, jwksUri } = rig.issuer
    await rig.gateway.handle.reload({
      targets: { billing: rig.upstream.url },
      tenant: 'acme',
      authn: { oidc: { issuer, audience, jwks_uri: jwksUri, clockToleranceSec: 0 } },
      admin: { port: 0, tokenRef: 'env:SVC_ADMIN', roles: { reviewer: ['other'] } },
    })
    await removed(cy)
  })
})
