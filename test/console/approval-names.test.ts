import { expect } from 'chai'
import type { Page } from 'playwright-core'
import { chromiumOfSuite } from '../support/chromium.js'
import { ofSuite } from '../support/parts.js'
import { startPayments } from './payments.js'

describe('names in the view of approvals', () => {
  const browser = chromiumOfSuite()

  const rig = ofSuite(() => startPayments(browser))

  const rowOf = (page: Page, id: string) => page.locator(`.waiting li[data-id="${id}"]`)

  it('are whole, or differ where they are cut', async () => {
    const agent = (middle: string, end: string) =>
      `${'agent-of-'.repeat(4)}${middle}${'-support'.repeat(4)}${end}`
    const user = (middle: string) => `${'user-'.repeat(9)}${middle}${'-of'.repeat(20)}@example.com`
    const [a, b, end, other] = [
      { headers: { 'x-agent-ref': agent('a', '1') } },
      { headers: { 'x-agent-ref': agent('b', '1') } },
      { headers: { 'x-agent-ref': agent('a', '2') } },
      { user: user('y') },
    ]
    const ids = []
    for (const [at, given] of [a, b, end, other, { user: user('z') }].entries())
      ids.push(await rig.waits('billing/refund_payment', { amount: 240 + at }, given))
    const page = await rig.pageOf('mia@example.com', '/console')
    const names = page.locator('.waiting .from')
    for (const id of ids)
      await rowOf(page, id)
        .locator('.from', { hasText: /…[0-9a-f]{8}…/ })
        .waitFor()
    expect(new Set(await names.allInnerTexts()).size).to.equal(5)
    const hidden = await names.evaluateAll(
      (all: { scrollWidth: number; clientWidth: number }[]) =>
        all.filter(({ scrollWidth, clientWidth }) => scrollWidth > clientWidth).length,
    )
    expect(hidden).to.equal(0)
    const sentences = new Set<string>()
    for (const id of ids) {
      await page.goto(`/console/approvals/${id}`)
      const name = page.locator('.headline strong', { hasText: /…[0-9a-f]{8}….*more characters/ })
      sentences.add((await name.textContent()) ?? '')
    }
    expect(sentences.size).to.equal(5)
  })

  it('say whether a user or a client calls', async () => {
    const token = await rig.issuer.sign({ email: undefined, sub: 'nightly-export', org: 'acme' })
    const headers = { authorization: `Bearer ${token}` }
    const id = await rig.waits('crm/export_contacts', { segment: 'all' }, { headers })
    const page = await rig.pageOf('mia@example.com', `/console/approvals/${id}`)
    await page.getByRole('heading', { name: /^Agent agent-7 for client nightly-export wants/ }).waitFor()
    await rowOf(page, id).getByText('agent-7 for client nightly-export').waitFor()
    await page
      .getByText(
        'high risk unknown side effects: neither the policy, an annotation nor its name says whether it has any',
      )
      .waitFor()
    expect(await page.locator('.ballot').getByText('Hidden characters').count()).to.equal(0)
  })

  it('of a call are the values that its rule reads first, whatever else it has', async () => {
    const padding = { aa: 1, ab: 2, ac: 3, lines: Array.from({ length: 400 }, (_, line) => `line ${line}`) }
    const id = await rig.waits('billing/refund_payment', { ...padding, amount: 240 })
    const page = await rig.pageOf('mia@example.com', `/console/approvals/${id}`)
    await rowOf(page, id)
      .getByText(/^amount 240, aa 1, ab 2$/)
      .waitFor()
    await page.getByRole('heading', { name: /wants refund_payment, amount 240, aa 1, ab 2$/ }).waitFor()
  })

  it('have in the list all values that the sentence has', async () => {
    const text = 'a long value of forty characters, of all'
    const id = await rig.waits('billing/refund_payment', { amount: 240, aa: text, bb: text })
    const page = await rig.pageOf('mia@example.com', `/console/approvals/${id}`)
    const values = `amount 240, aa ${text}, bb ${text}`
    expect(await page.locator('.headline .sentence').textContent()).to.contain(values)
    const box = rowOf(page, id).locator('.values')
    expect(await box.textContent()).to.equal(values)
    const [shown, whole] = await box.evaluate((one: { clientHeight: number; scrollHeight: number }) => [
      one.clientHeight,
      one.scrollHeight,
    ])
    expect(whole).to.equal(shown)
  })
})
