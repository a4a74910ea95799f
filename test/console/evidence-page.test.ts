import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { expect } from 'chai'
import { type EvidenceRig, evidenceRig, keyLine } from '../plugins/audit/log/tools/evidence/evidence-rig.js'
import { accessibilityViolations, type Chromium, needsChromium, startChromium } from '../support/chromium.js'

describe('a page of evidence in a browser', function () {
  this.timeout(60_000)
  let rig: EvidenceRig
  let chromium: Chromium
  let count = 0

  before(async function () {
    needsChromium(this)
    rig = await evidenceRig()
    chromium = await startChromium()
  })

  after(async () => {
    await chromium?.[Symbol.asyncDispose]()
    rig?.remove()
  })

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
      'a caller without a name of tenant acme called read@1.0.0 of files@1.0.0: it was allowed; it succeeded after 1.5 ms.',
    )
    await check('ed25519:AAAA', 'unchecked')
    expect(await verdict.textContent()).to.equal('Not checked: line 1 is not a public key.')
    await check(keyLine, 'ok')
    expect(await verdict.textContent()).to.match(/^All 10 records are proven: signed and sealed by ed25519:/)
    expect(await page.locator('#records > li.ok').count()).to.equal(10)
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
      /Place in the log: WRONG — the record does not lead to the root of the checkpoint/,
    )
    expect(await row.textContent()).to.match(/expected: [0-9a-f]{64}found: [0-9a-f]{64}/)
    expect(await accessibilityViolations(page)).to.deep.equal([])
    const forged = await open(rig.forged)
    await forged.check(keyLine, 'failed')
    expect(await forged.page.locator('#verdict').textContent()).to.equal('11 of 11 records are NOT PROVEN.')
  })
})
