// Names of 300 characters, of any script, in each column of the lists: no column leaves the screen of an operator.
import { fileURLToPath } from 'node:url'
import { expect } from 'chai'
import { chromiumOfSuite } from '../support/chromium.js'
import { phone, startPayments } from './payments.js'
import { ready } from './rig.js'

const checks = fileURLToPath(new URL('../../../test/console/page-checks.js', import.meta.url))

const LENGTH = 300
/** The gateway takes no longer name from a token. */
const MAX_USER = 200
const names = {
  latin: 'x'.repeat(LENGTH),
  hebrew: '\u05e9'.repeat(LENGTH),
  emoji: '\u{1f600}'.repeat(LENGTH / 2),
  invisible: 'a\u200b'.repeat(LENGTH / 2),
}
const views = [
  ...['live', 'log', 'servers', 'servers/billing', 'policy/access', 'overview', 'approvals'],
  'approvals/decided',
]

describe('the lists of the console', () => {
  const browser = chromiumOfSuite()

  it('have names of 300 characters in every column, on a screen and on a phone', async () => {
    await using rig = await startPayments(browser)
    for (const name of Object.values(names)) {
      const headers = { 'x-agent-ref': names.latin.slice(0, MAX_USER) }
      const { status } = await rig.call(
        `billing/${encodeURIComponent(name)}`,
        {},
        { user: `${name.slice(0, MAX_USER)}@example.com`, headers },
      )
      expect(status, name).to.equal(200)
    }
    const user = `${names.latin.slice(0, MAX_USER)}@example.com`
    const waits = (amount: number) =>
      rig.waits('billing/refund_payment', { amount, [names.latin]: names.latin }, { user })
    await waits(240)
    await rig.vote(await waits(241), 'approve', { user: `y${user.slice(1)}` })
    const problems: string[] = []
    for (const options of [{ viewport: { width: 1280, height: 800 } }, phone]) {
      const page = await rig.page('/console/live', options)
      await page.addInitScript({ path: checks })
      for (const view of views) {
        await page.goto(`/console/${view}`)
        await ready(page)
        // A character of two units is not cut in its middle.
        if ((await page.locator('main', { hasText: /U\+D[89A-F]/ }).count()) > 0)
          problems.push(`${view} shows half a character`)
        const found = await page.evaluate<string[]>('checks.beyondScreen()')
        problems.push(...found.map((one) => `${view} ${options.viewport.width}: ${one}`))
      }
    }
    expect(problems).to.deep.equal([])
  })
})
