import { expect } from 'chai'
import { ask } from '../app/admin/rig.js'
import { accessibilityViolations, type Chromium, needsChromium, startChromium } from '../support/chromium.js'
import { hiddenControls, hostileName, hostileText, longText } from './hostile.js'
import { startPayments } from './payments.js'
import { ready } from './rig.js'

/** What a page may weigh, whatever others call themselves. */
const MAX_TEXT = 150_000

describe('every view of the console', () => {
  let browser: Chromium

  before(async function () {
    needsChromium(this)
    browser = await startChromium()
  })

  after(() => browser?.[Symbol.asyncDispose]())

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
    page.on('dialog', (dialog) => {
      throw new Error(`a page opened a dialog: ${dialog.message()}`)
    })
    const rail = await page
      .locator('.rail li a')
      .evaluateAll((links) => links.map((link) => link.getAttribute('href') ?? ''))
    expect(rail).to.include('/console/approvals')
    const hash = encodeURIComponent(hostileText)
    const paths = [...rail, ...rail.map((path) => `${path}/${hash}?q=${hash}`)]
    for (const path of [...paths, `/console/approvals/${id}`, `/console/approvals/${rejected}`]) {
      await page.goto(path)
      await ready(page)
      // biome-ignore lint/performance/useDomNodeTextContent: what is on the screen, without the state of the page
      const text = await page.locator('body').innerText()
      expect(hiddenControls.exec(text)?.[0], `${path} shows a hidden character`).to.equal(undefined)
      if (path.endsWith(id)) expect(text).to.include('RLO')
      expect(text.length, path).to.be.below(MAX_TEXT)
      expect(await page.evaluate(() => 'wasRun' in globalThis), path).to.equal(false)
      expect(await accessibilityViolations(page), path).to.deep.equal([])
    }
  })
})
