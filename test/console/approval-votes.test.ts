import { createHash } from 'node:crypto'
import { bind, tokens } from '@svc/core'
import { canonicalize } from '@svc/core/json'
import { expect } from 'chai'
import type { Page } from 'playwright-core'
import { accessibilityViolations, chromiumOfSuite } from '../support/chromium.js'
import { ofEachTest } from '../support/parts.js'
import { phone, startPayments } from './payments.js'
import { screenshot } from './rig.js'

describe('votes in the console', () => {
  const browser = chromiumOfSuite()

  const rig = ofEachTest(() => startPayments(browser))

  const approveButton = (page: Page) => page.getByRole('button', { name: /^Approve/ })
  const enabled = (page: Page) => approveButton(page).and(page.locator(':enabled'))

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

  it('takes a double click on Approve as the choice, and not as the vote', async () => {
    const id = await rig.waits('billing/refund_payment', { amount: 240 })
    const page = await rig.pageOf('bo@example.com', '/console')
    await enabled(page).waitFor()
    await approveButton(page).dblclick()
    const send = page.getByRole('button', { name: /^Send approval/ })
    await send.and(page.locator(':enabled')).waitFor()
    expect((await rig.escalation(id)).votes).to.deep.equal([])
    await send.click()
    await page.locator('.steps').getByText('approved').waitFor()
  })

  it('takes one vote on several picked calls, each shown by its sentence, its hash and its input', async () => {
    const inputs = [
      { invoice: 'INV-1001', amount: 240 },
      { invoice: 'INV-1017', amount: 180 },
      { invoice: 'INV-1020', amount: 320, lines: Array.from({ length: 200 }, (_, line) => `line ${line}`) },
      { invoice: 'INV-1023', amount: 130 },
    ]
    const ids: string[] = []
    for (const input of inputs) ids.push(await rig.waits('billing/refund_payment', input))
    const page = await rig.pageOf('mia@example.com', '/console')
    await page.locator('.waiting .row[aria-current]').waitFor()
    await page.keyboard.press('x')
    await page.getByText('1 picked').waitFor()
    // A vote by a key must not be taken for one on all that is picked.
    expect(await page.getByRole('button', { name: /^Approve/ }).count()).to.equal(0)
    // Equal calls are folded.
    for (const key of ['j', 'Enter']) await page.keyboard.press(key)
    await page.locator('.waiting li:nth-child(2) a:focus').waitFor()
    for (const key of ['j', 'j', 'Shift+X', 'v']) await page.keyboard.press(key)
    await page.locator('#together-title:focus', { hasText: 'Vote on 4 calls together' }).waitFor()
    const calls = page.locator('.together-calls li')
    for (const [at, input] of inputs.entries()) {
      await calls
        .nth(at)
        .getByText(`Agent agent-7 for user bob@example.com wants refund_payment, amount ${input.amount}`)
        .waitFor()
      await calls
        .nth(at)
        .getByText(createHash('sha256').update(canonicalize(input)).digest('hex'))
        .waitFor()
    }
    const approve = page.getByRole('button', { name: /^Approve \d calls/ })
    await page.getByText(/Scroll to the end of each input first: \d to go/).waitFor()
    expect(await approve.isEnabled()).to.equal(false)
    await page.keyboard.press('a')
    expect(await page.getByLabel(/with a comment/).count()).to.equal(0)
    await screenshot(page, 'approvals-together')
    await page.keyboard.press('End')
    await approve.and(page.locator(':enabled')).waitFor()
    expect(await accessibilityViolations(page)).to.deep.equal([])
    await page.keyboard.press('a')
    await page.getByLabel('Approve 4 calls with a comment').fill('Seen the invoices')
    await rig.vote(ids[0] ?? '', 'reject')
    await calls
      .nth(0)
      .getByText(/Not in the vote: it is rejected.*cy@example\.com of acme decided/)
      .waitFor()
    expect(await page.getByLabel(/with a comment/).count()).to.equal(0)
    await page
      .getByRole('button', { name: /^Approve 3 calls/ })
      .and(page.locator(':enabled'))
      .waitFor()
    await calls.nth(3).getByRole('button', { name: 'Leave out' }).click()
    expect(await page.getByRole('button', { name: /^Approve 2 calls/ }).isEnabled()).to.equal(false)
    await page
      .getByRole('button', { name: /^Approve 2 calls/ })
      .and(page.locator(':enabled'))
      .waitFor()
    await page.locator('#together-title').focus()
    await page.keyboard.press('a')
    await page.getByLabel('Approve 2 calls with a comment').fill('Seen the invoices')
    await page.route('/api/escalations/votes', async (route) => {
      await rig.vote(ids[1] ?? '', 'reject')
      await route.continue()
    })
    await page.keyboard.press('Control+Enter')
    await page.locator('#together-title:focus', { hasText: '1 of 2 votes cast' }).waitFor()
    await calls
      .nth(1)
      .getByText(/no vote It is rejected already\..*cy@example\.com of acme decided/)
      .waitFor()
    await calls.nth(2).getByText('voted It is approved.').waitFor()
    expect(await accessibilityViolations(page)).to.deep.equal([])
    await page.getByRole('button', { name: 'Close' }).click()
    await page.getByRole('heading', { name: /amount 130/ }).waitFor()
    const votes = rig.gateway.records().filter(({ tool }) => tool === 'escalations/vote@1')
    expect(votes.map(({ escalation_id: id }) => id)).to.deep.equal(ids.slice(0, 3))
    expect(votes[2]?.event).to.include({ comment: 'Seen the invoices' })
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

  it('takes an approval on a phone once the end of the input was above the vote', async () => {
    const lines = Array.from({ length: 200 }, (_, line) => `line ${line}`)
    const id = await rig.waits('billing/refund_payment', { amount: 240, lines })
    const page = await rig.pageOf('bo@example.com', `/console/approvals/${id}`, phone)
    await page.locator('.ballot .reject:enabled').waitFor()
    /** Scrolls until the end of the input is so far above the vote; resolves once the page has seen it. */
    const scroll = (above: number) =>
      page.evaluate(
        `new Promise((resolve) => {
          const edge = (selector) => document.querySelector(selector).getBoundingClientRect()
          scrollBy(0, edge('.input').bottom + ${above} - edge('.ballot').top)
          requestAnimationFrame(() => new IntersectionObserver(() => setTimeout(resolve)).observe(document.body))
        })`,
      )
    await scroll(-20)
    expect(await page.locator('.ballot').textContent()).to.include('Scroll to the end of the input first.')
    expect(await page.locator('.ballot .approve').isEnabled()).to.equal(false)
    await scroll(20)
    await page.locator('.ballot .approve:enabled').waitFor()
  })

  it('says which votes a quorum lacks: by roles, after others, and of the second set', async () => {
    let passed = 0
    const clock = { now: () => Date.now() + passed, monotonic: () => performance.now() + passed }
    const second = 'second_set: { after_sec: 60, approval_set_id: managers }'
    await using quorum = await startPayments(
      browser,
      `admin:
  port: 0
  tokenRef: env:SVC_ADMIN
  roles: { reviewer: [approver], auditor: [auditor] }
  approval_sets: { managers: { users: [max@example.com] } }
`,
      `, min_approvals: 2, min_rejections: 2, required_roles: [treasurer], veto_roles: [legal], ${second}`,
      { configure: (container) => bind(container, tokens.Clock, { useValue: clock }) },
    )
    const id = await quorum.waits('billing/refund_payment', { amount: 240 })
    const bo = await quorum.pageOf('bo@example.com', `/console/approvals/${id}`)
    const missing = (page: Page, text: string) =>
      page.locator('.decision').getByText(text, { exact: true }).waitFor()
    const rejecting = '2 rejections decide, or one with the role legal.'
    await missing(
      bo,
      `0 of 2 approvals; missing: 2 reviewers of acme (you are one), one with the role treasurer. ${rejecting}`,
    )
    await quorum.vote(id, 'approve')
    await missing(bo, `1 of 2 approvals; missing: a reviewer of acme, with the role treasurer. ${rejecting}`)
    await bo.locator('.votes').getByText('cy@example.com of acme').waitFor()
    passed = 61_000
    const max = await quorum.pageOf('max@example.com', `/console/approvals/${id}`, {}, [])
    await missing(
      max,
      `1 of 2 approvals; missing: a reviewer of acme or of the set managers, with the role treasurer. ${rejecting}`,
    )
    await enabled(max).waitFor()
    await max.keyboard.press('a')
    await max.getByLabel(/with a comment/).press('Control+Enter')
    await missing(max, `2 of 2 approvals; missing: one with the role treasurer. ${rejecting}`)
    expect(await accessibilityViolations(max)).to.deep.equal([])
    await quorum.vote(id, 'reject', { user: 'lee@example.com', roles: ['approver', 'legal'] })
    await bo.locator('.steps').getByText('nothing is sent').waitFor()
    await bo.getByText(/lee@example\.com of acme decided/).waitFor()
  })
})
