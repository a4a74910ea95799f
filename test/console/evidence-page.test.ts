import { mkdtempSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { evidenceOf } from '@svc/plugin-audit/tools'
import { expect } from 'chai'
import {
  DAY,
  type EvidenceRig,
  evidenceRig,
  keyLine,
} from '../plugins/audit/log/tools/evidence/evidence-rig.js'
import { forgeries } from '../plugins/audit/log/tools/evidence/forgeries.js'
import { LogBuilder } from '../support/audit-log.js'
import { Chance } from '../support/chance.js'
import { accessibilityViolations, chromiumOfSuite } from '../support/chromium.js'
import { propertyRuns } from '../support/property-runs.js'
import { screenshot } from './rig.js'

describe('a page of evidence in a browser', function () {
  this.timeout(60_000)
  let rig: EvidenceRig
  const chromium = chromiumOfSuite()
  let count = 0

  before(async () => {
    rig = await evidenceRig()
  })

  after(() => rig?.remove())

  afterEach(() => expect(chromium.problems()).to.deep.equal([]))

  async function open(page: string) {
    const path = join(rig.root, `shown-${count++}.html`)
    writeFileSync(path, page)
    const opened = await chromium.open({ colorScheme: count % 2 === 0 ? 'light' : 'dark' })
    const requests: string[] = []
    opened.on('request', (request) => requests.push(request.url()))
    await opened.goto(pathToFileURL(path).href)
    const check = async (keys: string, state: string) => {
      await opened.getByLabel('Public keys of the log').fill(keys)
      await opened.getByRole('button', { name: 'Check' }).click()
      await opened.locator(`#verdict.${state}`, { hasNotText: 'Checking' }).waitFor()
    }
    return { page: opened, requests, check }
  }

  it('is grey until the reader enters a key, then says of each record that it is proven, and sends nothing', async () => {
    const { page, requests, check } = await open(rig.page)
    const verdict = page.locator('#verdict')
    expect(await verdict.textContent()).to.match(/^Not checked/)
    expect(await page.locator('#records > li.unchecked').count()).to.equal(10)
    expect(await page.locator('#records > li').nth(1).textContent()).to.include(
      'anonymous of tenant acme called read@1.0.0 of files@1.0.0: it was allowed; it succeeded after 1.5 ms.',
    )
    const overview = page.locator('#overview')
    expect(await page.locator('#counted').textContent()).to.equal(
      'Of all records of this file, as they say; they are not checked.',
    )
    expect(await overview.textContent()).to.match(/persons9 × anonymous.*decisions9 × allowed/)
    await check('ed25519:AAAA', 'unchecked')
    expect(await verdict.textContent()).to.equal('Not checked: line 1 is not a public key.')
    await check(keyLine, 'ok')
    expect(await verdict.textContent()).to.match(/^All 10 records are proven: signed and sealed by ed25519:/)
    expect(await page.locator('#records > li.ok').count()).to.equal(10)
    expect(await page.locator('#counted').textContent()).to.equal(
      'Of the 10 records that are proven, out of 10 in this file.',
    )
    expect(await overview.textContent()).to.match(/gaps3 × not in this file.*witnessesnone$/)
    const last = page.locator('#records > li').nth(9)
    await last.locator('summary').click()
    await last.locator('pre').waitFor()
    expect(await last.textContent())
      .to.include('Signature: correct')
      .and.to.include('</script>\\u202e5')
    const definition = page.locator('#records > li').nth(1)
    await definition.locator('summary').click()
    await definition.locator('pre').first().waitFor()
    expect(await definition.textContent()).to.include('{"description":"Refunds","name":"refund"}')
    expect(await accessibilityViolations(page)).to.deep.equal([])
    await definition.locator('summary').click()
    await page.evaluate('scrollTo(0, 0)')
    await screenshot(page, 'evidence')
    expect(requests).to.have.length(1)
  })

  it('is red with both hashes for a record that was changed, and for those of another key', async () => {
    const data = JSON.parse(
      rig.page.slice(rig.page.indexOf('id="evidence">') + 14, rig.page.indexOf('</script>')),
    )
    const proof = data.records[4] as string
    const line = Buffer.from(/^extra (.*)$/m.exec(proof)?.[1] ?? '', 'base64').toString()
    const changed = Buffer.from(line.replace('"ok"', '"error"')).toString('base64')
    const { page, check } = await open(rig.page.replace(Buffer.from(line).toString('base64'), changed))
    await check(keyLine, 'failed')
    expect(await page.locator('#verdict').textContent()).to.equal('1 of 11 records are NOT PROVEN.')
    const row = page.locator('#records > li').nth(4)
    expect(await row.getAttribute('class')).to.equal('failed')
    await row.locator('summary').click()
    await row.locator('pre').waitFor()
    expect(await row.textContent()).to.match(
      /Place in the log: WRONG — the record does not lead to the root of its checkpoint/,
    )
    expect(await row.textContent()).to.match(/expected: [0-9a-f]{64}found: [0-9a-f]{64}/)
    expect(await accessibilityViolations(page)).to.deep.equal([])
    const forged = await open(rig.forged)
    await forged.check(keyLine, 'failed')
    expect(await forged.page.locator('#verdict').textContent()).to.equal('11 of 11 records are NOT PROVEN.')
  })

  it('is green for what check-bundle and the Python verifier accept, and for nothing else', async () => {
    const all = [...forgeries()]
    const seed = Number(process.env['SVC_SEED'] ?? 5)
    const random = new Chance(seed)
    const tried = Array.from({ length: Math.min(all.length, propertyRuns(25)) }, () => {
      return all.splice(random.int(0, all.length - 1), 1)[0]!
    })
    const opened = await chromium.open()
    for (const { title, page, keys = keyLine, found } of tried) {
      const path = join(rig.root, 'forged.html')
      writeFileSync(path, page)
      await opened.goto(pathToFileURL(path).href)
      const verdict = opened.locator('#verdict')
      if ((await verdict.getAttribute('class')) === 'unchecked') {
        await opened.getByLabel('Public keys of the log').fill(keys)
        await opened.getByRole('button', { name: 'Check' }).click()
        await verdict.and(opened.locator('.ok, .failed')).waitFor()
      }
      const state = found.length === 0 ? 'ok' : 'failed'
      expect(await verdict.getAttribute('class'), `${title}, seed ${seed}`).to.equal(state)
    }
  })

  it('shows hostile values as text, cut, with hidden characters by their codes', async () => {
    const evil = `</script><img src=x onerror="document.title='run'">\u202e\u200b`
    const long = 'x'.repeat(100_000)
    const record = Object.fromEntries(
      ['tenant', 'server', 'tool', 'error', 'agentRef', 'policy_sha256', 'definition_sha256'].map((name) => [
        name,
        evil + long,
      ]),
    )
    const dir = mkdtempSync(join(rig.root, 'hostile-'))
    const log = new LogBuilder(dir)
    log.record(DAY, { ...record, principal: { user: evil + long } })
    log.record(DAY, {
      ...record,
      policy: { decision: 'deny', retention: evil },
      gateway: evil + long,
      event: { text: evil },
    })
    log.seal()
    log.finish()
    const { page, check } = await open(await evidenceOf([dir], { agent: evil + long }, { madeBy: evil }))
    await check(keyLine, 'ok')
    const rows = page.locator('#records > li')
    expect(await rows.count()).to.equal(2)
    for (const row of await rows.all()) {
      await row.locator('summary').click()
      await row.locator('pre').first().waitFor()
      expect(await row.locator('summary').textContent())
        .to.include('</script><img src=x')
        .and.include('\\u202e\\u200b')
      expect((await row.locator('summary').textContent())?.length).to.be.below(3000)
    }
    expect(await page.locator('img').count()).to.equal(0)
    expect(await page.title()).to.equal('Evidence from an audit log')
  })
})
