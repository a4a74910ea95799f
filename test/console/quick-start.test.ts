import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { cpSync, readFileSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { endWithRunner } from '../support/child-lifetime.js'
import { chromiumOfSuite } from '../support/chromium.js'
import { root } from '../support/pages.js'
import { temporaryDir } from '../support/temporary-dir.js'
import { signIn } from './rig.js'

describe('the quick start with its console', () => {
  const home = temporaryDir()
  const browser = chromiumOfSuite()

  it('prints a link that shows its calls, and sends the refund that waits there once it is approved', async () => {
    const directory = join(home.path, 'examples', 'quick-start')
    cpSync(join(root, 'examples/quick-start'), directory, {
      recursive: true,
      filter: (path) => !path.includes('.svc'),
    })
    symlinkSync(join(root, 'node_modules'), join(home.path, 'node_modules'))
    const child = endWithRunner(
      spawn(process.execPath, ['dist/start.js'], {
        cwd: directory,
        env: { ...process.env, PORT: '0' },
        stdio: ['ignore', 'pipe', 'inherit'],
      }),
    )
    const ended = once(child, 'exit')
    let printed = ''
    const saysOnce = async (pattern: RegExp): Promise<string> => {
      for (;;) {
        const [, found] = pattern.exec(printed) ?? []
        if (found !== undefined) return found
        const [piece] = await Promise.race([once(child.stdout, 'data'), ended.then(() => [undefined])])
        if (piece === undefined) throw new Error(`the example ended: ${printed}`)
        printed += piece
      }
    }
    try {
      const link = await saysOnce(/^ {2}(http:\/\/localhost:\d+\/console)$/m)
      const token = await saysOnce(/the token to sign in with is in {2}(\S+)/)
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
      await saysOnce(/(The refund was approved, and sent: ok\.)/)
      await page.goto(link.replace('/console', '/console/live'))
      await page.getByText('billing/refund_payment').first().waitFor()
      await page.locator('tr', { hasText: 'delete_customer' }).getByText('denied').waitFor()
    } finally {
      child.kill()
      await ended
    }
  })
})
