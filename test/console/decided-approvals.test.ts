// What reviewers of many calls use: groups of equal calls, keys, decided calls, the title and notifications.
import { expect } from 'chai'
import type { Page } from 'playwright-core'
import { ask } from '../app/admin/rig.js'
import { accessibilityViolations, chromiumOfSuite } from '../support/chromium.js'
import { ofEachTest } from '../support/parts.js'
import { startPayments } from './payments.js'
import { screenshot } from './rig.js'

describe('a reviewer of many calls', () => {
  const browser = chromiumOfSuite()

  const rig = ofEachTest(() => startPayments(browser))

  const refunds = async (amounts: readonly number[], user = 'bob@example.com') => {
    for (const amount of amounts) await rig.waits('billing/refund_payment', { amount }, { user })
  }

  it('sees equal calls of a caller as one, unfolds them, and picks them all', async () => {
    await refunds([101, 102])
    await rig.waits('crm/export_contacts', { segment: 'all' })
    await refunds([103, 104])
    await refunds([105, 106], 'dana@example.com')
    const page = await rig.pageOf('mia@example.com', '/console/approvals')
    const rows = page.locator('.waiting a.row')
    const folded = page.locator('.waiting .folded')
    const texts = async () =>
      (await rows.allTextContents()).map((text) => /amount \d+|segment/.exec(text)?.[0])
    expect(await texts()).to.deep.equal(['amount 101', 'segment', 'amount 105', 'amount 106'])
    expect(await folded.textContent()).to.contain('3 more of this caller, tool and rule')
    expect(await accessibilityViolations(page)).to.deep.equal([])
    await folded.getByRole('button', { name: 'Pick all' }).click()
    await page.getByText('4 picked').waitFor()
    await page.keyboard.press('j')
    await folded.locator('button:focus').waitFor()
    await page.keyboard.press('Enter')
    await folded.waitFor({ state: 'detached' })
    await page.locator('.waiting li:nth-child(2) a:focus').waitFor()
    expect((await texts()).slice(0, 5)).to.deep.equal([
      ...['amount 101', 'amount 102', 'amount 103', 'amount 104'],
      'segment',
    ])
    expect(await page.locator('.waiting input:checked').count()).to.equal(4)
  })

  it('sees that a group may have more calls while others are not loaded', async () => {
    const amounts = Array.from({ length: 18 }, (_, n) => 101 + n)
    for (const user of ['ann', 'dan', 'eva']) await refunds(amounts, `${user}@example.com`)
    const page = await rig.pageOf('mia@example.com', '/console/approvals')
    const first = await page.evaluate(async () => (await fetch('/console/approvals')).text())
    const counts = [...first.matchAll(/(at least )?\d+ more of this caller/g)].map(([text]) => text)
    expect(counts).to.deep.equal([17, 17, 13].map((count) => `at least ${count} more of this caller`))
    await page
      .locator('.waiting .folded', { hasText: /^17 more/ })
      .nth(2)
      .waitFor()
    expect(await page.locator('.waiting .folded', { hasText: 'at least' }).count()).to.equal(0)
  })

  it('comes from the selected call to the vote by Tab, and to other calls by arrows', async () => {
    await refunds([101], 'ann@example.com')
    await refunds([102], 'dan@example.com')
    await refunds([103], 'eva@example.com')
    const page = await rig.pageOf('mia@example.com', '/console/approvals')
    await page.locator('.choices .approve:enabled').waitFor()
    await page.keyboard.press('j')
    await page.locator('.waiting li:nth-child(2) a:focus[aria-current]').waitFor()
    await page.keyboard.press('ArrowDown')
    await page.locator('.waiting li:nth-child(3) a:focus[aria-current]').waitFor()
    await page.keyboard.press('ArrowUp')
    await page.locator('.waiting li:nth-child(2) a:focus[aria-current]').waitFor()
    await page.getByRole('heading', { name: /amount 102/ }).waitFor()
    await page.locator('.choices .approve:enabled').waitFor()
    const approve = page.locator('.choices .approve:focus')
    for (let presses = 0; presses < 30 && (await approve.count()) === 0; presses++) {
      await page.keyboard.press('Tab')
      expect(await page.locator('.waiting :focus').count()).to.equal(0)
    }
    expect(await approve.count()).to.equal(1)
  })

  it('finds decided calls by caller, tool, text and reviewer', async () => {
    const paid = await rig.waits('billing/refund_payment', { amount: 240, note: 'Charged twice' })
    await rig.vote(paid, 'approve')
    const kept = await rig.waits('crm/export_contacts', { segment: 'all' }, { user: 'dana@example.com' })
    await rig.vote(kept, 'reject', { user: 'eve@example.com' })
    await rig.waits('billing/refund_payment', { amount: 300 })
    const page = await rig.pageOf('mia@example.com', '/console/approvals')
    await page.getByRole('link', { name: 'Decided' }).click()
    const rows = page.locator('.decided-list tbody tr')
    await rows.nth(1).waitFor()
    expect(await rows.allTextContents()).to.satisfy((texts: string[]) =>
      [
        /crm\/export_contacts.*dana.*rejected.*eve@example.com/,
        /billing\/refund_payment.*approved.*cy@/,
      ].every((part, at) => part.test(texts[at] ?? '')),
    )
    expect(await accessibilityViolations(page)).to.deep.equal([])
    await screenshot(page, 'decided')
    for (const [words, tools] of [
      ['DANA', ['crm/export_contacts']],
      ['refund_payment', ['billing/refund_payment']],
      ['charged TWICE', ['billing/refund_payment']],
      ['eve@example.com', ['crm/export_contacts']],
      ['dana refund_payment', []],
    ] as const) {
      await page.keyboard.press('/')
      await page.keyboard.type(words)
      await page.keyboard.press('Enter')
      await page.waitForURL((url) => url.searchParams.get('search') === words)
      await page.locator('#app[data-ready]').waitFor()
      expect(await rows.locator('a').allTextContents()).to.deep.equal(tools)
    }
    await page.getByText('Nothing that was decided has these words.').waitFor()
    await page.goto(`/console/approvals/decided?search=${paid}`)
    await rows.locator('a').click()
    await page.getByText('approved', { exact: true }).first().waitFor()
  })

  it('finds nothing by the text of an input that they may not read', async () => {
    await rig.vote(await rig.waits('billing/refund_payment', { amount: 240, note: 'charged' }), 'approve')
    const found = async (role: string, search: string) => {
      const token = await rig.issuer.sign({ email: `${role}@example.com`, sub: role, roles: [role] })
      const headers = { authorization: `Bearer ${token}` }
      const { json } = await ask(rig.origin, `/api/escalations?status=decided&search=${search}`, { headers })
      return (json['escalations'] as object[]).length
    }
    expect([await found('auditor', 'charged'), await found('approver', 'charged')]).to.deep.equal([1, 1])
    expect([await found('viewer', 'charged'), await found('viewer', 'refund_payment')]).to.deep.equal([0, 1])
  })

  it('reads in the title how many wait, as far as it is known, and is notified while the page is hidden', async () => {
    const page = await rig.pageOf('mia@example.com', '/console/approvals')
    await page.addInitScript(() => {
      const shown: string[] = []
      class Notification {
        static permission = 'default'
        static async requestPermission() {
          Notification.permission = 'granted'
          return 'granted'
        }
        constructor(title: string, { body }: { body: string }) {
          shown.push(`${title} | ${body}`)
        }
      }
      Object.assign(globalThis, { Notification, shown })
    })
    await page.clock.install()
    await page.reload()
    await page.locator('#app[data-ready]').waitFor()
    expect(await page.title()).to.equal('Approvals · svc')
    await refunds([101])
    await titled(page, '(1) Approvals · svc')
    await hide(page, true)
    await page.clock.fastForward(31_000)
    await titled(page, 'Approvals · svc')
    await hide(page, false)
    await titled(page, '(1) Approvals · svc')
    expect(await page.evaluate('shown')).to.deep.equal([])
    await page.getByLabel('Notify me of calls that wait').check()
    await page.waitForFunction('navigator.locks.query().then(({ held }) => held.length === 1)')
    await hide(page, true)
    await page.clock.fastForward(31_000)
    await refunds([102])
    await titled(page, '(2) Approvals · svc')
    expect(await page.evaluate('shown')).to.deep.equal(['2 calls wait for a decision | gw@1.0.0'])
    expect(await accessibilityViolations(page)).to.deep.equal([])
  })
})

async function titled(page: Page, title: string): Promise<void> {
  await page.waitForFunction((wanted) => {
    const { document } = globalThis as unknown as { document: { readonly title: string } }
    return document.title === wanted
  }, title)
}

async function hide(page: Page, isHidden: boolean): Promise<void> {
  await page.evaluate((value) => {
    const { document } = globalThis as unknown as { document: EventTarget }
    Object.defineProperty(document, 'hidden', { value, configurable: true })
    document.dispatchEvent(new Event('visibilitychange'))
  }, isHidden)
}
