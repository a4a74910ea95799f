import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect } from 'chai'
import type { Page } from 'playwright-core'
import { accessibilityViolations, chromiumOfSuite } from '../support/chromium.js'
import { scriptedTarget } from '../support/stdio-target.js'
import { temporaryDir } from '../support/temporary-dir.js'
import { startUpstream } from '../support/upstream.js'
import { type ConsoleRig, startConsole } from './rig.js'

describe('the state of a server in the console', () => {
  const home = temporaryDir()
  const browser = chromiumOfSuite()

  const node = (page: Page, name: string) => page.locator('.nodes li', { hasText: name })
  const state = (page: Page) => page.locator('.facts div', { hasText: 'State' })

  /** Loads the page again until it has the text: a call is in the log a moment after its response. */
  async function shows(page: Page, has: () => Promise<string | null>, text: string): Promise<void> {
    while (!(await has())?.includes(text)) await page.reload()
  }

  /** The state on the graph and on its own page, of which both are accessible. */
  async function expectState(rig: ConsoleRig, name: string, words: string): Promise<Page> {
    const page = await rig.page('/console/servers')
    await shows(page, () => node(page, name).textContent(), words)
    expect(await accessibilityViolations(page)).to.deep.equal([])
    await page.goto(`/console/servers/${name}`)
    await state(page).getByText(words).waitFor()
    expect(await accessibilityViolations(page)).to.deep.equal([])
    return page
  }

  it('is “starting” until its process has responded, and “running” then', async () => {
    const held = join(home.path, 'held')
    await using rig = await startConsole(browser, { targets: { files: scriptedTarget(`wait=${held}`) } })
    const calling = rig.gateway.invoke('/mcp/files/echo@3.1.0', { said: 'hello' })
    const page = await expectState(rig, 'files', 'starting')
    writeFileSync(held, '')
    expect((await calling).status).to.equal(200)
    await page.reload()
    expect(await state(page).textContent()).to.equal('Staterunning 1 process')
  })

  it('is “down” with the reason if its process ends as it starts', async () => {
    await using rig = await startConsole(browser, { targets: { files: scriptedTarget('exit') } })
    expect((await rig.gateway.invoke('/mcp/files/echo@3.1.0')).status).to.equal(502)
    const page = await expectState(rig, 'files', 'down')
    expect(await page.locator('.facts .banner').textContent()).to.match(/exit/)
  })

  it('is in the calls that failed if it is reached over HTTP and was stopped', async () => {
    const upstream = await startUpstream()
    await using rig = await startConsole(browser, { targets: { mail: upstream.url } })
    await upstream[Symbol.asyncDispose]()
    expect((await rig.gateway.invoke('/mcp/mail/send@1.0.0')).status).to.equal(502)
    const page = await rig.page('/console/servers')
    await shows(page, () => node(page, 'mail').textContent(), '1 failed')
    expect(await accessibilityViolations(page)).to.deep.equal([])
    await page.goto('/console/servers/mail')
    await state(page).getByText('1 of 1 call failed').waitFor()
    expect(await accessibilityViolations(page)).to.deep.equal([])
  })
})
