import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { generateKeyFile, LocalDevSigner, SvcAppender } from '@svc/plugin-audit/log'
import { checkEvidence, readKeys, readLog } from '@svc/plugin-audit/tools'
import { expect } from 'chai'
import type { Page } from 'playwright-core'
import { envelope } from '../plugins/audit/log/writer/records.js'
import { accessibilityViolations, chromiumOfSuite } from '../support/chromium.js'
import { ofSuite } from '../support/parts.js'
import { temporaryDir } from '../support/temporary-dir.js'
import { startUpstream } from '../support/upstream.js'
import { DayLog } from './past-day.js'
import { type ConsoleRig, screenshot, startConsole } from './rig.js'

const evil = `</script><img src=x onerror="document.title='run'">\u202e${'x'.repeat(100_000)}`

describe('the view of the log', () => {
  const home = temporaryDir()
  const browser = chromiumOfSuite()
  let rig: ConsoleRig

  beforeEach(async () => {
    const keyRef = `file://${join(home.path, 'key')}`
    generateKeyFile(join(home.path, 'key'))
    const audit = {
      gatewayName: 'edge',
      gatewayVersion: '1.0.0',
      dir: join(home.path, 'audit'),
      signer: { keyRef },
      checkpointIntervalMs: 100,
    }
    {
      // Of the last weeks, without Sundays.
      await using earlier = new DayLog(audit)
      const days = Array.from({ length: 26 }, (_, day) => Date.now() - (26 - day) * 86_400_000)
      await earlier.appendAt(days.filter((at) => new Date(at).getUTCDay() > 0))
    }
    const policy = {
      targets: { billing: upstream.url },
      rules: [{ name: 'large-refunds', when: 'args.amount > 500', then: 'deny' }],
      admin: { port: 0, tokenRef: 'env:SVC_ADMIN' },
    }
    rig = await startConsole(browser, { audit, policyYaml: JSON.stringify(policy) })
    for (const [amount, agent] of [
      [40, 'agent-7'],
      [900, 'agent-9'],
      [75, 'agent-7'],
      [60, 'agent-7'],
    ])
      await rig.gateway.invoke('/mcp/billing/refund@1.0.0', { amount }, { 'x-agent-ref': `${agent}` })
  })

  afterEach(() => rig[Symbol.asyncDispose]())

  const upstream = ofSuite(() => startUpstream())

  /** A page of the log once the calls are sealed. */
  async function openLog(path = '/console/log?tool=refund'): Promise<Page> {
    const page = await rig.page(path)
    while ((await page.locator('.log-records tbody a').count()) < 4) await page.reload()
    await page.locator('#app[data-ready]').waitFor()
    return page
  }

  it('shows days, heads, lags and records, and offers evidence after its size', async () => {
    const page = await openLog()
    expect(await page.locator('.log-days').textContent()).to.include('no gap')
    expect(await page.locator('.log-facts').textContent()).to.match(
      /Head\d+ leaves.*Last seal.*no witness.*writable/,
    )
    expect(await page.locator('.log-records tbody tr').count()).to.equal(4)
    await page.getByRole('button', { name: 'Evidence for this filter' }).click()
    await page.getByText(/^4 records, about \d+ KiB\./).waitFor()
    await screenshot(page, 'log')
    expect(await accessibilityViolations(page)).to.deep.equal([])
    const [download] = await Promise.all([
      page.waitForEvent('download'),
      page.getByRole('link', { name: 'Download the file' }).click(),
    ])
    const judged = await checkEvidence(
      readFileSync(await download.path()),
      await readKeys(join(join(home.path, 'audit'), 'public-keys')),
    )
    expect(judged).to.include({ valid: true, records: 4 })
    await page.getByLabel('Decision').selectOption('deny')
    await page.getByRole('button', { name: 'Filter', exact: true }).click()
    await page.waitForURL(/decision=deny/)
    expect(await page.locator('.log-records tbody tr').allTextContents()).to.have.length(1)
    await page.getByLabel('Server').fill('crm')
    await page.getByRole('button', { name: 'Filter', exact: true }).click()
    await page.waitForURL(/server=crm/)
    await page.getByText('No record matches.').waitFor()
  })

  it('verifies a record: green, and red with both hashes once it is changed on disk', async () => {
    const page = await openLog()
    await page.keyboard.press('j')
    await page.keyboard.press('Enter')
    await page.waitForURL(/\/console\/log\/\d+$/)
    const panel = page.locator('.verify')
    await panel.getByText('Proven', { exact: true }).waitFor()
    expect(await panel.textContent()).to.include('Checked by code from this gateway')
    expect(await panel.textContent()).to.include('This browser keeps the head from now on.')
    expect(await panel.locator('li', { hasText: 'Inclusion' }).textContent()).to.match(
      /^correctInclusionleaf \d+ of \d+$/,
    )
    await screenshot(page, 'verify')
    expect(await accessibilityViolations(page)).to.deep.equal([])
    await page.reload()
    await panel.getByText('Proven', { exact: true }).waitFor()
    expect(await panel.textContent()).to.match(/against the head that this browser has kept since/)
    let accesses = 0
    for await (const _ of readLog(join(home.path, 'audit'), { tool: 'admin/prove_record' })) accesses++
    expect(accesses).to.be.at.most(3)
    const file = join(join(home.path, 'audit'), `audit-${new Date().toISOString().slice(0, 10)}.ndjson`)
    writeFileSync(file, readFileSync(file, 'utf8').replaceAll('"tenant":"acme"', '"tenant":"acmf"'))
    await panel.getByText('NOT PROVEN').waitFor()
    expect(await panel.textContent()).to.match(
      /the record was changed after it was sealedexpected [0-9a-f]{64}found [0-9a-f]{64}/,
    )
    await screenshot(page, 'verify-changed')
    expect(await accessibilityViolations(page)).to.deep.equal([])
  })

  it('is red for a log that is not the one of the head that the browser kept, and does not replace that head', async () => {
    const page = await openLog()
    await page.locator('.log-records tbody a').first().click()
    const panel = page.locator('.verify')
    await panel.getByText('Proven', { exact: true }).waitFor()
    await page.evaluate(`{
      const key = Object.keys(localStorage).find((name) => name.startsWith('svc-head:'))
      const head = JSON.parse(localStorage.getItem(key))
      localStorage.setItem(key, JSON.stringify({ ...head, root: btoa('x'.repeat(32)) }))
    }`)
    await page.reload()
    await panel.getByText('NOT PROVEN').waitFor()
    expect(await panel.textContent()).to.match(
      /Kept head(the log no longer has|the checkpoint does not continue)/,
    )
    await page.reload()
    await panel.getByText('NOT PROVEN').waitFor()
  })

  it('is grey for a log of another name than the kept one, until the reader keeps it', async () => {
    const page = await openLog()
    await page.evaluate(`localStorage.setItem('svc-head:other.example/1', '{}')`)
    await page.locator('.log-records tbody a').first().click()
    const panel = page.locator('.verify')
    await panel.getByText(/has kept heads of other.example\/1 here, and none of this log/).waitFor()
    await panel.getByText('Not checked', { exact: true }).waitFor()
    await panel.getByRole('button', { name: 'Keep it' }).click()
    await panel.getByText('Proven', { exact: true }).waitFor()
  })

  it('shows hostile values as text, with hidden characters by name', async () => {
    const signer = LocalDevSigner.fromKeyRef(`file://${join(home.path, 'key')}`)
    const appender = new SvcAppender({ config: { dir: join(home.path, 'audit'), retentionDays: 30 }, signer })
    await appender.append(
      envelope({
        ts: new Date().toISOString(),
        tenant: evil,
        server: `billing@${evil}`,
        tool: `refund@${evil}`,
        error: evil,
        agentRef: evil,
        principal: { user: evil },
      }),
    )
    await appender.close()
    const page = await rig.page('/console/log?tool=refund')
    const row = page.locator('.log-records tbody tr').first()
    while ((await row.locator('a').count()) === 0 || !(await row.textContent())?.includes('<img'))
      await page.reload()
    expect(await row.textContent()).to.include('</script><img src=x')
    await row.locator('a').click()
    await page.locator('.verify').getByText('Proven', { exact: true }).waitFor()
    expect(await page.locator('.sentence').textContent()).to.include('RLO')
    expect(await page.locator('img').count()).to.equal(0)
    expect(await page.title()).to.equal('Log · svc')
    expect(await accessibilityViolations(page)).to.deep.equal([])
  })
})
