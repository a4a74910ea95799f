import { closeSync, openSync, readdirSync, readFileSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { expect } from 'chai'
import type { Page } from 'playwright-core'
import { connect } from '../integration/elicitation/rig.js'
import { chromiumOfSuite } from '../support/chromium.js'
import type { PrintingProcess } from '../support/printing-process.js'
import { copyQuickStart, startQuickStart } from '../support/quick-start.js'
import { temporaryDir } from '../support/temporary-dir.js'
import { bundleOnce, signIn } from './rig.js'

/** Changes a letter in each record of a refund, in place: the gateway goes on with the file. */
function changeRefund(dir: string): void {
  for (const name of readdirSync(dir).filter((one) => /^audit-.*\.ndjson$/.test(one))) {
    const file = openSync(join(dir, name), 'r+')
    const text = readFileSync(file, 'latin1')
    for (const { index } of text.matchAll(/refund_payment@/g)) writeSync(file, 'R', index)
    closeSync(file)
  }
}

describe('the quick start with its console', () => {
  const home = temporaryDir()
  const browser = chromiumOfSuite()
  let directory: string
  let example: PrintingProcess

  before(bundleOnce)

  beforeEach(() => {
    directory = copyQuickStart(home.path)
    example = startQuickStart(directory)
  })

  // Also after a test that timed out, which does not get to its end.
  afterEach(() => example[Symbol.asyncDispose]())

  /** A page at the link that was printed, signed in with the token that was named. */
  async function openConsole(): Promise<{ page: Page; link: string }> {
    const link = await example.prints(/^ {2}(http:\/\/localhost:\d+\/console)$/m)
    const token = await example.prints(/the token to sign in with is in {2}(\S+)/)
    const page = await browser.open()
    await page.goto(link)
    await signIn(page, readFileSync(join(directory, token), 'utf8').trim())
    return { page, link }
  }

  async function approve(page: Page, call: RegExp): Promise<void> {
    await page.getByRole('heading', { name: call }).waitFor()
    const enabled = (name: RegExp) => page.getByRole('button', { name }).and(page.locator(':enabled'))
    await enabled(/Approve/).waitFor()
    await page.keyboard.press('a')
    await enabled(/^Send approval/).waitFor()
    await page.keyboard.press('Control+Enter')
  }

  it('prints a link that shows its calls, and sends the refund that waits there once it is approved', async () => {
    const { page, link } = await openConsole()
    await approve(page, /wants refund_payment/)
    await example.prints(/The refund was approved, and sent: ok\./)
    await page.goto(link.replace('/console', '/console/live'))
    // In the first five seconds rows move, and one is red.
    for (const row of ['.calls .new', '.calls tr.denied']) {
      await page.locator(row).first().waitFor({ timeout: 5000 })
    }
    await page.getByText('billing/refund_payment').first().waitFor()
    await page.locator('tr', { hasText: 'delete_customer' }).getByText('denied').first().waitFor()
    // The record of the refund is proven once it is sealed, and no more once it is changed on disk.
    await page.locator('.calls tr.allowed', { hasText: 'billing/refund_payment' }).locator('a').click()
    const verify = page.locator('.verify')
    await verify.getByText('Proven', { exact: true }).waitFor({ timeout: 15_000 })
    changeRefund(join(directory, '.svc', 'audit'))
    await verify.getByText('NOT PROVEN').waitFor()
  })

  it('completes a refund in one call of a client that opens the page for which it is asked', async () => {
    const { page } = await openConsole()
    const url = await example.prints(/^The gateway listens on (\S+)/m)
    const person = async ({ url: approval = '' }: { readonly url?: string }) => {
      await page.goto(approval)
      await approve(page, /wants refund_payment.*420/)
      return { action: 'accept' }
    }
    await using one = await connect(`${url}/mcp/billing`, 'refund_payment', person)
    const args = { invoice: 'INV-1001', amount: 420, reason: 'charged twice' }
    const { content, isError } = await one.client.callTool({ name: 'refund_payment', arguments: args })
    expect(isError).to.not.equal(true)
    expect(JSON.stringify(content)).to.match(/refunded/)
  })
})
