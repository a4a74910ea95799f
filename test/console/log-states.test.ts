import { readFileSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { vkeysOfLog } from '@svc/plugin-audit/tools'
import { expect } from 'chai'
import { witnesses } from '../plugins/audit/log/tools/witness/rig.js'
import { accessibilityViolations, chromiumOfSuite } from '../support/chromium.js'
import { temporaryDir } from '../support/temporary-dir.js'
import { DayLog, pastDay } from './past-day.js'
import { type ConsoleRig, screenshot, startConsole } from './rig.js'

const daysAgo = (days: number) => Date.now() - days * 86_400_000
const dayOf = (at: number) => new Date(at).toISOString().slice(0, 10)

describe('the view of a log with a witness, a removed day, a cut one and an upload that fails', () => {
  const home = temporaryDir()
  const browser = chromiumOfSuite()
  const startWitness = witnesses(home)
  const cut = dayOf(daysAgo(3))
  let witness: Awaited<ReturnType<typeof startWitness>>
  let rig: ConsoleRig
  let dir: string

  beforeEach(async () => {
    const { audit } = await pastDay(home.path, Date.now(), 3)
    dir = audit.dir
    {
      await using earlier = new DayLog(audit)
      await earlier.appendAt([9, 8, 3, 3, 3, 2].map(daysAgo))
    }
    {
      // Before the gateway, which removes no day that it did not upload.
      await using removing = new DayLog(audit, 5)
      await removing.append(1)
    }
    witness = await startWitness('a', { trusted: (await vkeysOfLog(dir)).join('\n') })
    rig = await startConsole(browser, {
      audit: {
        ...audit,
        checkpointIntervalMs: 100,
        log: { witnesses: [{ url: witness.url, key: witness.vkey }] },
        presign: { apiBaseUrl: 'http://127.0.0.1:1', auditKey: 'Bearer none', tenant: 'acme' },
      },
    })
    await rig.gateway.invoke('/mcp/billing/refund@1.0.0')
    truncateSync(join(dir, `audit-${cut}.ndjson`), 10)
  })

  afterEach(() => rig[Symbol.asyncDispose]())

  it('says which days are gone and why, when the witness confirmed the log, and what waits', async () => {
    const page = await rig.page('/console/log')
    const days = page.locator('.log-days')
    const facts = page.locator('.log-facts')
    const states = ['removed by retention', 'sealed records are MISSING', 'no records']
    while (!(await days.textContent())?.includes(`1 with a gap: ${cut}`)) await page.reload()
    for (const state of states) await days.locator('.log-legend', { hasText: state }).waitFor()
    for (const [at, state] of [
      [9, 'removed by retention, 1 sealed records'],
      [5, 'no records, 0 sealed records'],
      [3, 'sealed records are MISSING, 3 sealed records'],
      [2, 'sealed, 1 sealed records'],
    ] as const) {
      expect(await days.locator('title', { hasText: dayOf(daysAgo(at)) }).textContent()).to.equal(
        `${dayOf(daysAgo(at))}: ${state}`,
      )
    }
    for (const fact of ['a.example/w', 'bytes wait'])
      while (!(await facts.textContent())?.includes(fact)) await page.reload()
    expect(await facts.textContent()).to.match(/Last witness.*(?:ago|now), at \d+ leaves, by a\.example\/w/)
    expect(await facts.textContent()).to.match(/Upload\w+, [\d,]+ bytes wait, since/)
    await screenshot(page, 'log-states')
    expect(await accessibilityViolations(page)).to.deep.equal([])
  })

  it('verifies the witness by the key that the reader enters: green, and red for a cosignature that is not its', async () => {
    const page = await rig.page('/console/log?tool=refund')
    const panel = page.locator('.verify')
    while ((await page.locator('.log-records tbody a').count()) === 0) await page.reload()
    await page.locator('.log-records tbody a').first().click()
    const row = panel.locator('li', { hasText: 'Witness a.example/w' })
    await row.getByText('this browser has no key of it').waitFor()
    await panel.getByText('Keys of witnesses').click()
    const field = panel.getByLabel(/^Verifier keys/)
    await field.fill(`# of the witness\n${witness.vkey.replace('+', '+0')}`)
    await panel.getByRole('button', { name: 'Keep these keys' }).click()
    await panel.getByText('Line 2 is not the verifier key of a witness.').waitFor()
    await field.fill(witness.vkey)
    await panel.getByRole('button', { name: 'Keep these keys' }).click()
    await row.getByText(/^cosigned at /).waitFor()
    await screenshot(page, 'verify-witness')
    expect(await accessibilityViolations(page)).to.deep.equal([])
    await page.reload()
    await row.getByText(/^cosigned at /).waitFor()
    expect(await panel.locator('h2').textContent()).to.equal('Verify Proven')
    const file = join(dir, `audit-${dayOf(Date.now())}.checkpoint`)
    writeFileSync(file, readFileSync(file, 'utf8').replaceAll(/(?<=^\u2014 a\.example\/w .*)....$/gm, 'AAA='))
    await row.getByText('the cosignature does not fit').waitFor()
    await panel.getByText('NOT PROVEN').waitFor()
  })

  for (const [storage, script] of [
    ['is refused', `Object.defineProperty(window, 'localStorage', { get() { throw new Error('refused') } })`],
    ['is full', `Storage.prototype.setItem = () => { throw new DOMException('full', 'QuotaExceededError') }`],
  ] as const) {
    it(`goes on with keys in memory if the storage of the browser ${storage}, and says that they are not kept`, async () => {
      const page = await rig.page('/console/log?tool=refund')
      const panel = page.locator('.verify')
      while ((await page.locator('.log-records tbody a').count()) === 0) await page.reload()
      await page.evaluate(`localStorage.setItem('svc-witness-keys', '# none')`)
      await page.context().addInitScript(script)
      await page.locator('.log-records tbody a').first().click()
      await panel.getByText('The browser does not store the head').waitFor()
      await panel.getByText('Keys of witnesses').click()
      await panel.getByLabel(/^Verifier keys/).fill(witness.vkey)
      await panel.getByRole('button', { name: 'Keep these keys' }).click()
      await panel.getByText('They are used until you leave this page').waitFor()
      await panel
        .locator('li', { hasText: 'Witness a.example/w' })
        .getByText(/^cosigned at /)
        .waitFor()
      expect(await accessibilityViolations(page)).to.deep.equal([])
      await page.keyboard.press('?')
      const help = page.getByRole('dialog', { name: 'Keys' })
      await help.getByRole('checkbox').uncheck()
      await help.getByText('this choice ends when you leave the page').waitFor()
      await help.getByRole('button', { name: 'Close' }).click()
      await page.keyboard.press('?')
      expect(await help.isVisible()).to.equal(false)
    })
  }
})
