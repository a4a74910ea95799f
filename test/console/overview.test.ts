import { expect } from 'chai'
import { adminToken, ask } from '../app/admin/rig.js'
import { accessibilityViolations, chromiumOfSuite } from '../support/chromium.js'
import { temporaryDir } from '../support/temporary-dir.js'
import { startUpstream } from '../support/upstream.js'
import { pastDay } from './past-day.js'
import { ready, screenshot, startConsole } from './rig.js'

describe('the overview of the console', () => {
  const home = temporaryDir()
  const browser = chromiumOfSuite()

  it('shows calls, denials by reason, limits in use, stages and blocks of the last 24 hours', async () => {
    const day = await pastDay(home.path, Date.now(), 3_000)
    await using upstream = await startUpstream()
    await using rig = await startConsole(browser, {
      ...day,
      targets: { billing: upstream.url },
      entitlements: {
        default_plan: 'all',
        plans: { all: { allowlist: ['*'], calls_per_day: 5 } },
        tenants: {},
      },
    })
    for (let count = 0; count < 6; count++) await rig.gateway.invoke('/mcp/billing/get_invoice@1.2.0')
    const page = await rig.page('/console/overview')
    await page.getByText('The last 24 hours').waitFor()
    await page.getByText('rule:large-refunds').waitFor()
    const calls = page.locator('.figures div', { hasText: /^Calls/ }).locator('dd')
    expect(await calls.textContent()).to.match(/^3,00\d /)
    const limit = page.locator('li', { hasText: 'get_invoice' })
    expect(await limit.textContent()).to.contain('5 of 5')
    const figure = async (name: RegExp) =>
      Number.parseFloat(
        (await page.locator('.figures div', { hasText: name }).locator('dd').textContent()) ?? '',
      )
    const [median, slowest] = [await figure(/^Median/), await figure(/^99th/)]
    // Four of ten calls of the day take about 12 ms, and some eight times as long.
    expect(median).to.be.within(10, 40)
    expect(slowest).to.be.within(60, 800)
    const block = { kind: 'tool', pattern: 'mail/send', reason: 'it leaks', for_sec: 600 }
    await ask(rig.origin, '/api/blocks', {
      method: 'POST',
      headers: { authorization: `Bearer ${adminToken}`, 'content-type': 'application/json' },
      body: JSON.stringify(block),
    })
    await page.reload()
    await ready(page)
    const blocked = page.locator('.bars li', { hasText: 'mail/send' })
    expect(await blocked.textContent()).to.match(
      /^tool mail\/send(600 s|10 min|59\d s) leftit leaks, by the admin token$/,
    )
    expect(await accessibilityViolations(page)).to.deep.equal([])
    await screenshot(page, 'overview')
  })
})
