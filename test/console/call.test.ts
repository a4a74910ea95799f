import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect } from 'chai'
import type { Page } from 'playwright-core'
import { definitionsRig } from '../app/definitions/rig.js'
import { accessibilityViolations, chromiumOfSuite } from '../support/chromium.js'
import { postMcp } from '../support/mcp-post.js'
import { temporaryDir } from '../support/temporary-dir.js'
import { pastDay } from './past-day.js'
import { startPayments } from './payments.js'
import { screenshot, startConsole } from './rig.js'

const evil = '\u202e</script><img src=x onerror=alert(1)>'
const trace = '4bf92f3577b34da6a3ce929d0e0e4736'
const headers = { traceparent: `00-${trace}-00f067aa0ba902b7-01` }

describe('the view of a call', () => {
  const home = temporaryDir()
  const browser = chromiumOfSuite()

  async function open(page: Page, tool: string): Promise<void> {
    await page.goto('/console/live')
    await page.locator('.calls a', { hasText: tool }).first().click()
    await page.locator('#app[data-ready] .call').waitFor()
  }

  it('says who called what, which rule decided it, where it waited, and what the caller was told', async () => {
    await using rig = await startPayments(browser)
    await rig.call('billing/get_invoice', { invoice: 'INV-1001' }, { headers, user: `${evil}@example.com` })
    const denied = await rig.call('crm/delete_contact', { id: 77 }, { headers })
    const { message } = (await denied.json()) as { message: string }
    const page = await rig.page('/console/live')
    await page.locator('.calls tbody tr').nth(1).waitFor()
    await page.keyboard.press('j')
    await page.keyboard.press('Enter')
    await page.waitForURL(/\/console\/live\/\d{4}-\d\d-\d\d-\d+$/)
    await page.locator('#app[data-ready] .call').waitFor()
    expect(await page.getByRole('heading', { level: 1 }).textContent()).to.match(
      /^agent-7 for bob@example\.com of acme called crm\/delete_contact: denied by the rule no-deletions, [\d.]+ ms; nothing was sent$/,
    )
    expect(await page.locator('.policy-lines').textContent()).to.include('name: no-deletions')
    expect(await page.locator('.call blockquote').textContent()).to.equal(message)
    expect(await page.locator('.siblings tbody').textContent()).to.include('billing/get_invoice')
    await page.getByText('The record', { exact: true }).click()
    expect(await page.locator('.record').textContent()).to.include(`"trace_id": "${trace}"`)
    expect(await accessibilityViolations(page)).to.deep.equal([])
    await page.getByText('The record', { exact: true }).click()
    await page.locator('h1').scrollIntoViewIfNeeded()
    await screenshot(page, 'call')
    await page.locator('.siblings a').click()
    await page.locator('.timeline td', { hasText: 'upstream' }).waitFor()
    await page.getByText('The response of the server.').waitFor()
    expect(await page.locator('h1 .hidden-character').textContent()).to.equal('RLO')
    expect(await page.locator('.call img').count()).to.equal(0)
    expect(await accessibilityViolations(page)).to.deep.equal([])
    await screenshot(page, 'call-allowed')
  })

  it('shows the values that a rule keeps, and the definition that its caller was served', async () => {
    await using source = await definitionsRig({ preset: 'observe' })
    await using rig = await startConsole(browser, {
      targets: { files: source.upstream },
      protections: { preset: 'observe' },
      rules: [{ name: 'no-secrets', when: 'args.q == "secrets"', then: 'deny', keep: ['args.q'] }],
    })
    const url = `${rig.gateway.url}/mcp/files`
    await (await postMcp(url, { id: 1, method: 'tools/list', params: {} })).text()
    const params = { name: 'search', arguments: { q: 'secrets' } }
    await (await postMcp(url, { id: 2, method: 'tools/call', params })).text()
    const page = await rig.page('/console/live')
    await open(page, 'files/search')
    const values = page.locator('.decided dl').last()
    expect(await values.textContent()).to.equal('args.q"secrets"')
    expect(await page.locator('.definition').textContent()).to.include('"description": "Searches."')
    expect(await accessibilityViolations(page)).to.deep.equal([])
    expect(await page.getByText('First served').textContent()).to.match(/^First served \d+ \w+, /)
  })

  it('is verified: green, and red with both hashes once the record is changed on disk', async () => {
    await using rig = await startConsole(browser, (dir) => ({
      audit: {
        gatewayName: 'edge',
        gatewayVersion: '1.0.0',
        dir: join(dir, 'audit'),
        signer: { keyRef: `file://${join(dir, 'key')}` },
        checkpointIntervalMs: 100,
      },
    }))
    await rig.gateway.invoke('/mcp/billing/refund@1.0.0')
    const page = await rig.page('/console/live')
    await open(page, 'billing/refund')
    const panel = page.locator('.verify')
    await panel.getByText('Proven', { exact: true }).waitFor()
    await screenshot(page, 'call-verified')
    const file = join(rig.gateway.dir, `audit-${new Date().toISOString().slice(0, 10)}.ndjson`)
    writeFileSync(file, readFileSync(file, 'utf8').replaceAll('"tenant":"acme"', '"tenant":"acmf"'))
    await panel.getByText('NOT PROVEN').waitFor()
    expect(await panel.textContent()).to.match(/expected [0-9a-f]{64}found [0-9a-f]{64}/)
    expect(await accessibilityViolations(page)).to.deep.equal([])
    await screenshot(page, 'call-changed')
  })

  it('has no times for calls of another process, and says of a new one that it is not sealed yet', async () => {
    const { audit } = await pastDay(home.path, Date.now(), 2)
    await using rig = await startConsole(browser, {
      audit: { ...audit, checkpointIntervalMs: 86_400_000 },
    })
    const page = await rig.page('/console/live')
    await page.keyboard.press('j')
    await page.keyboard.press('Enter')
    await page.getByText('this call is not one of them').waitFor()
    await rig.gateway.invoke('/mcp/billing/refund@1.0.0')
    await open(page, 'billing/refund')
    await page.getByText('Not sealed yet: the log is sealed every 24 h.').waitFor()
    await page.goto('/console/live/2026-01-01-77')
    await page.getByRole('heading', { name: 'Not found' }).waitFor()
  })
})
