import { closeSync, openSync, readdirSync, readFileSync, writeSync } from 'node:fs'
import { join } from 'node:path'
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
  let example: PrintingProcess

  before(bundleOnce)
  // Also after a test that timed out, which does not get to its end.
  afterEach(() => example[Symbol.asyncDispose]())

  it('prints a link that shows its calls, and sends the refund that waits there once it is approved', async () => {
    const directory = copyQuickStart(home.path)
    example = startQuickStart(directory)
    const link = await example.prints(/^ {2}(http:\/\/localhost:\d+\/console)$/m)
    const token = await example.prints(/the token to sign in with is in {2}(\S+)/)
    const page = await browser.open()
    await page.goto(link)
    await signIn(page, readFileSync(join(directory, token), 'utf8').trim())
    await page.getByRole('heading', { name: /wants refund_payment/ }).waitFor()
    await page
      .getByRole('button', { name: /Approve/ })
      .and(page.locator(':enabled'))
      .waitFor()
    await page.keyboard.press('a')
    await page.keyboard.press('Control+Enter')
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
})
