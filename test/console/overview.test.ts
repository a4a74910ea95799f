import { expect } from 'chai'
import { accessibilityViolations, chromiumOfSuite } from '../support/chromium.js'
import { temporaryDir } from '../support/temporary-dir.js'
import { startUpstream } from '../support/upstream.js'
import { pastDay } from './past-day.js'
import { screenshot, startConsole } from './rig.js'

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
    await page.getByText('Nobody and nothing is blocked.').waitFor()
    expect(await accessibilityViolations(page)).to.deep.equal([])
    await screenshot(page, 'overview')
  })
})
