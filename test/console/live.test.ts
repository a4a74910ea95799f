import { expect } from 'chai'
import type { Page } from 'playwright-core'
import { accessibilityViolations, chromiumOfSuite } from '../support/chromium.js'
import { startForwarder } from '../support/forwarder.js'
import { temporaryDir } from '../support/temporary-dir.js'
import { DayLog, pastDay } from './past-day.js'
import { type Payments, startPayments } from './payments.js'
import { screenshot, startConsole } from './rig.js'

const evil = '\u202e</script><img src=x onerror=alert(1)>'

describe('the view of calls as they happen', () => {
  const home = temporaryDir()
  const browser = chromiumOfSuite()

  const rows = (page: Page) => page.locator('.calls tbody tr')

  describe('of a gateway with people', () => {
    let rig: Payments

    beforeEach(async () => {
      rig = await startPayments(browser)
    })

    afterEach(() => rig[Symbol.asyncDispose]())

    it('begins with a command that makes the first call, and shows it as it is recorded', async () => {
      const page = await rig.page('/console/live')
      const command = (await page.locator('.empty .copy .mono').textContent()) ?? ''
      const [, url = ''] = /^curl -s '(\S+)' \\\n {2}-H 'content-type: application\/json'/.exec(command) ?? []
      expect(url).to.equal(`${rig.gateway.url}/mcp/billing/TOOL@1.0.0`)
      await page.getByText('No server lists its tools to the gateway.').waitFor()
      expect(command).to.include('authorization: Bearer $TOKEN')
      expect(await accessibilityViolations(page)).to.deep.equal([])
      await screenshot(page, 'live-empty')
      await rig.call('billing/ping', {})
      await rows(page).filter({ hasText: 'billing/ping' }).waitFor()
      expect(await page.getByText('No calls yet').count()).to.equal(0)
    })

    it('shows a denied call in a word and a colour, and one that waits', async () => {
      await rig.call('billing/get_invoice', { invoice: 'INV-1001' })
      const page = await rig.page('/console/live')
      await rows(page).first().waitFor()
      await rig.call('crm/delete_contact', { id: 1 })
      await rig.waits('billing/refund_payment', { amount: 240 })
      const denied = rows(page).filter({ hasText: 'crm/delete_contact' })
      await denied.getByText('denied', { exact: true }).waitFor()
      expect(await denied.locator('.reason').textContent()).to.equal('no-deletions')
      await rows(page).first().getByText('waits', { exact: true }).waitFor()
      expect(await rows(page).locator('.mono').allTextContents()).to.deep.equal([
        'billing/refund_payment',
        'crm/delete_contact',
        'billing/get_invoice',
      ])
      // Two days later.
      await page.clock.setFixedTime(Date.now() + 172_800_000)
      await rig.call('billing/ping', {})
      await rows(page).filter({ hasText: 'billing/ping' }).waitFor()
      expect(await rows(page).last().locator('.time').textContent()).to.match(/^\d+ \w+, \d\d:\d\d:\d\d$/)
    })

    it('holds back what comes while it is paused, filters by the URL, and opens a row by keys', async () => {
      await rig.call('billing/get_invoice', {})
      const page = await rig.page('/console/live?decision=denied&q=caller:agent-7')
      await page.getByText('None of the newest 1 calls matches.').waitFor()
      await rig.call('crm/delete_contact', { id: 1 })
      await rows(page).first().waitFor()
      await page.keyboard.press(' ')
      await rig.call('crm/delete_contact', { id: 2 })
      await page.getByRole('button', { name: /Resume: 1 new/ }).waitFor()
      expect(await rows(page).count()).to.equal(1)
      await page.keyboard.press(' ')
      await rows(page).nth(1).waitFor()
      await page.keyboard.press('/')
      await page.keyboard.type('caller:agent-7 no-such')
      await page.getByText('None of the newest 3 calls matches.').waitFor()
      expect(page.url()).to.match(/\?q=caller%3Aagent-7\+no-such&decision=denied$/)
      await page.getByLabel('Filter').fill('')
      await page.keyboard.press('Escape')
      await page.getByLabel('Decision').selectOption('')
      expect(await rows(page).count()).to.equal(3)
      await page.getByLabel('Decision').blur()
      await page.keyboard.press('j')
      await page.keyboard.press('j')
      await page.keyboard.press('k')
      expect(await rows(page).first().locator('a:focus').count()).to.equal(1)
    })

    it("shows a reviewer their own tenant's calls alone, and a viewer none, by whatever link", async () => {
      const gus = { user: 'gus@globex.example', tenant: 'globex' }
      await rig.call('billing/get_invoice', { note: 'of acme' })
      await rig.call('billing/get_invoice', { note: 'of globex' }, gus)
      const all = await rig.page('/console/live')
      await rows(all).nth(1).waitFor()
      const links = await all
        .locator('.calls tbody a')
        .evaluateAll((found) => found.map((one) => one.getAttribute('href') ?? ''))
      const [theirs = '', acmes = ''] = links
      const page = await rig.pageOf('rae@globex.example', '/console/live', {}, ['approver'], 'globex')
      await rig.call('crm/delete_contact', { id: 1 })
      await rig.call('billing/list_invoices', {}, gus)
      await rows(page).filter({ hasText: 'billing/list_invoices' }).waitFor()
      expect(await rows(page).locator('.mono').allTextContents()).to.deep.equal([
        'billing/list_invoices',
        'billing/get_invoice',
      ])
      // biome-ignore lint/performance/useDomNodeTextContent: what is on the screen
      expect(await page.locator('body').innerText()).to.not.match(/bob@|acme/)
      for (const [path, text] of [
        [theirs, 'gus@globex.example'],
        [acmes, 'There is no such page, or it is not for you.'],
        ['/console/live?q=caller:bob', 'None of the newest 2 calls matches.'],
      ] as const) {
        await page.goto(path)
        await page.getByText(text).first().waitFor()
        expect(await page.content(), path).to.not.match(/bob@|of acme/)
      }
      for (const view of ['servers', 'policy', 'log', 'overview', 'approvals']) {
        await page.goto(`/console/${view}`)
        await page.locator('main').waitFor()
        expect(await page.content(), view).to.not.match(/bob@|of acme|delete_contact/)
      }
      const viewer = await rig.pageOf('vi@globex.example', '/console/live', {}, ['viewer'], 'globex')
      await viewer.getByText('Calls are for operator, auditor and reviewer').waitFor()
      expect(await viewer.locator('.rail li').allTextContents()).to.deep.equal([
        'Approvals',
        'Log',
        'Overview',
      ])
      for (const path of links) {
        await viewer.goto(path)
        await viewer.getByText('There is no such page, or it is not for you.').waitFor()
        expect(await viewer.content()).to.not.match(/bob@|gus@|of acme|of globex/)
      }
    })

    it('marks what is hidden in names, and runs nothing of them', async () => {
      const page = await rig.page('/console/live')
      await rig.call(
        'billing/get_invoice',
        {},
        {
          user: `b\u043eb${evil}@example.com`,
          headers: { 'x-agent-ref': encodeURIComponent(`${evil}${'x'.repeat(100_000)}`.slice(0, 500)) },
        },
      )
      await rows(page).first().waitFor()
      await rows(page).first().locator('.hidden-character', { hasText: 'RLO' }).first().waitFor()
      await rows(page).first().locator('.hidden-character', { hasText: '\u043e U+043E' }).waitFor()
      expect(await rows(page).first().locator('img').count()).to.equal(0)
      expect(await accessibilityViolations(page)).to.deep.equal([])
    })
  })

  it('shows the seal of a call, and goes on while 10,000 calls stream', async () => {
    const { audit } = await pastDay(home.path, Date.now(), 300)
    await using rig = await startConsole(browser, { audit: { ...audit, checkpointIntervalMs: 200 } })
    const page = await rig.page('/console/live')
    await rows(page).last().getByText('sealed', { exact: true }).waitFor()
    await using log = new DayLog(audit)
    await log.append(40)
    await page.locator('.calls .new').first().waitFor()
    await rows(page).nth(9).getByText('sealed', { exact: true }).waitFor()
    await screenshot(page, 'live')
    expect(await accessibilityViolations(page)).to.deep.equal([])
    await log.append(10_000)
    const sampled = page.getByText(/showing 1 in \d+/)
    await sampled.waitFor()
    expect(await rows(page).count()).to.be.at.most(200)
    // A call among many may be one of those that are not shown.
    await sampled.waitFor({ state: 'detached' })
    await rig.gateway.invoke('/mcp/billing/last_of_them@1.0.0')
    const last = rows(page).filter({ hasText: 'billing/last_of_them' })
    await last.getByText('sealed', { exact: true }).waitFor()
  })

  it('counts also the calls that it does not show, while it is paused', async () => {
    const { audit } = await pastDay(home.path, Date.now(), 3)
    await using rig = await startConsole(browser, { audit })
    const page = await rig.page('/console/live')
    await using log = new DayLog(audit)
    await log.append(1)
    await rows(page).nth(3).waitFor()
    await page.keyboard.press(' ')
    await log.append(1000)
    await page.getByText(/showing 1 in \d+/).waitFor()
    await page.getByRole('button', { name: 'Resume: 1,000 new' }).waitFor()
  })

  it('says that the connection is lost, and how many calls were recorded meanwhile', async () => {
    const { audit } = await pastDay(home.path, Date.now(), 3)
    await using rig = await startConsole(browser, { audit })
    let isUp = true
    await using between = await startForwarder(() => (isUp ? rig.origin : 'http://127.0.0.1:1'))
    const page = await rig.page('/console/live', { baseURL: between.url.replace('127.0.0.1', 'localhost') })
    await rows(page).first().waitFor()
    await using log = new DayLog(audit)
    await log.append(1)
    await rows(page).nth(3).waitFor()
    isUp = false
    between.drop()
    await page.getByText('the newest call is from').waitFor()
    expect(await page.getByText('reconnecting').count()).to.equal(1)
    await screenshot(page, 'live-lost')
    expect(await accessibilityViolations(page)).to.deep.equal([])
    await log.append(212)
    isUp = true
    await page.getByText('connected again; 212 backfilled').waitFor()
    expect(await rows(page).count()).to.equal(200)
  })
})
