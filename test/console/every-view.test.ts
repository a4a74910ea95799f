// Each view by the keyboard alone, on small screens, and with colours and motion as the reader has set them.
import { fileURLToPath } from 'node:url'
import { expect } from 'chai'
import type { Locator, Page } from 'playwright-core'
import { definitionsRig, type Rig } from '../app/definitions/rig.js'
import { Chance } from '../support/chance.js'
import { chromiumOfSuite } from '../support/chromium.js'
import { propertyRuns } from '../support/property-runs.js'
import { TemporaryDir } from '../support/temporary-dir.js'
import { startUpstream, type TestUpstream } from '../support/upstream.js'
import { pastDay } from './past-day.js'
import { type ConsoleRig, ready, startConsole } from './rig.js'

const checks = fileURLToPath(new URL('../../../test/console/page-checks.js', import.meta.url))

const seed = Number(process.env['SVC_SEED'] ?? 20261124)
/** Else each page is tried in one of the ways. */
const isWhole = propertyRuns(1) > 1

const paths = [
  '/console/live',
  '/console/servers',
  '/console/servers/billing',
  '/console/servers/files',
  '/console/policy',
  '/console/policy/access',
  '/console/policy/access?server=billing&tool=get_invoice',
  '/console/policy/try',
  '/console/policy/shadow',
  '/console/policy/text',
  '/console/log',
  '/console/log/1',
  '/console/overview',
  '/console/approvals/decided',
]

const [small, large] = [
  { width: 640, height: 400 },
  { width: 1280, height: 800 },
]
/** 320 pixels are 1280 at 400 % (WCAG 2.2, 1.4.10). */
const screens = [
  { width: 320, height: 256 },
  small,
  { width: 390, height: 844 },
  { width: 800, height: 600 },
  { width: 1000, height: 700 },
  large,
] as const

describe('every view of the console', () => {
  const home = new TemporaryDir()
  const browser = chromiumOfSuite()
  let upstream: TestUpstream
  let source: Rig
  let rig: ConsoleRig
  let page: Page
  let all: readonly string[]

  before(async () => {
    upstream = await startUpstream()
    source = await definitionsRig({ preset: 'guard' })
    const { audit } = await pastDay(home.path, Date.now(), 12)
    const policy = {
      targets: { billing: upstream.url, crm: upstream.url, files: source.upstream },
      admin: { port: 0, tokenRef: 'env:SVC_ADMIN', console: { edit: true } },
      protections: { preset: 'guard' },
      rules: [
        { name: 'large-refunds', tools: ['billing/refund_payment'], when: 'args.amount > 500', then: 'deny' },
        { name: 'refunds', tools: ['billing/refund_payment'], then: 'escalate', keep: ['args.amount'] },
      ],
      security: { side_effects: { approve_high_risk: true, human_escalation: { ttl_sec: 3600 } } },
    }
    rig = await startConsole(browser, {
      audit: { ...audit, checkpointIntervalMs: 100 },
      policyYaml: JSON.stringify(policy),
    })
    const refund = (amount: number) => rig.gateway.invoke('/mcp/billing/refund_payment@1.0.0', { amount })
    await refund(900)
    const waits = (await (await refund(240)).json()) as { escalation_id: string }
    // A definition that waits for an operator.
    await fetch(`${rig.gateway.url}/mcp/files`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', accept: 'application/json, text/event-stream' },
      body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/list', params: {} }),
    }).then((response) => response.text())
    page = await rig.page('/console/live')
    await page.addInitScript({ path: checks })
    const call = await page.locator('tr.denied a').first().getAttribute('href')
    all = [...paths, call ?? '', `/console/approvals/${waits.escalation_id}`]
  })

  after(async () => {
    for (const one of [rig, source, upstream]) await one?.[Symbol.asyncDispose]()
    home[Symbol.dispose]()
  })

  const open = async (path: string) => {
    await page.goto(path)
    await ready(page)
  }

  /** Presses `key` until the focus has gone round; resolves to the elements that had it. */
  async function walk(key: string, report: (problems: readonly string[]) => void): Promise<string[]> {
    await page.evaluate('checks.begin()')
    for (;;) {
      await page.keyboard.press(key)
      const found = await page.evaluate<string[] | null>('checks.step()')
      if (found === null) return page.evaluate<string[]>('checks.names()')
      report(found)
    }
  }

  it('is reached by the Tab key, whole, seen, in the order of reading, and back', async () => {
    const [chance, found] = [new Chance(seed), new Problems()]
    for (const path of all) {
      const sizes = [large, small] as const
      for (const size of isWhole ? sizes : [chance.pick(sizes)]) {
        await page.setViewportSize(size)
        await open(path)
        if (path.includes('/approvals/esc_')) await page.locator('.reject:enabled').waitFor()
        const report = (problems: readonly string[]) => found.add(`${path} ${size.width}`, problems)
        const names = await walk('Tab', report)
        report(await page.evaluate<string[]>('checks.end()'))
        report(await page.evaluate<string[]>('checks.pointerOnly()'))
        if (!isWhole && chance.next() < 0.7) continue
        const back = await walk('Shift+Tab', report)
        if (back.reverse().join() !== names.join()) report([`the way back is another: ${back}, not ${names}`])
      }
    }
    expect(found.lines(), `SVC_SEED=${seed}`).to.deep.equal([])
  })

  /** Presses the Tab key until the focus is there. */
  async function tabTo(wanted: Locator): Promise<void> {
    for (let presses = 0; presses < 100; presses++) {
      await page.keyboard.press('Tab')
      if ((await focused(wanted).count()) === 1) return
    }
    throw new Error(`the Tab key does not lead to ${wanted}`)
  }

  const focused = (wanted: Locator) => wanted.and(page.locator(':focus'))

  it('does by keys alone what operators do', async () => {
    const { keyboard } = page
    await page.setViewportSize(large)
    await page.context().grantPermissions(['clipboard-read', 'clipboard-write'])
    await open('/console/servers')
    await tabTo(page.getByRole('link', { name: 'Skip to the content' }))
    await keyboard.press('Enter')
    await keyboard.press('Tab')
    await focused(page.locator('.column:first-child .node').first()).waitFor()
    await page.locator('.nodes li.dim').first().waitFor()
    const files = page.locator('.node', { hasText: 'files' })
    for (let presses = 0; presses < 20 && (await focused(files).count()) === 0; presses++)
      await keyboard.press('j')
    await keyboard.press('Enter')
    await page.waitForURL(/servers\/files$/)
    await ready(page)
    await tabTo(page.getByRole('button', { name: 'Accept…' }))
    await keyboard.press('Enter')
    // The key that opened the question must not answer it.
    const accept = page.getByRole('button', { name: 'Accept 1 definition' })
    await focused(page.getByRole('button', { name: 'Leave it' })).waitFor()
    expect(await accept.isEnabled()).to.equal(false)
    await accept.and(page.locator(':enabled')).waitFor()
    await keyboard.press('Shift+Tab')
    await focused(accept).waitFor()
    await keyboard.press('Enter')
    await page.getByText('as they were pinned').waitFor()
    // What had the focus is no longer there.
    await focused(page.locator('main')).waitFor()
    await tabTo(page.getByRole('combobox', { name: 'Client' }))
    await keyboard.type('VS')
    await tabTo(page.getByRole('button', { name: 'Copy the configuration of VS Code' }))
    await keyboard.press('Enter')
    await page.getByText('copied', { exact: true }).waitFor()

    await open('/console/policy/try')
    await tabTo(page.getByLabel('Tool', { exact: true }))
    await keyboard.type('billing/refund_payment')
    await tabTo(page.getByLabel('Arguments, as JSON'))
    await keyboard.press('Control+A')
    await keyboard.type('{"amount": 900}')
    await tabTo(page.getByRole('button', { name: 'Try it' }))
    await keyboard.press('Enter')
    await page.getByText('rule:large-refunds').first().waitFor()

    await open('/console/policy/access')
    const row = page.locator('tr', { hasText: 'billing/get_invoice' })
    await tabTo(row.getByRole('button', { name: 'Turn off…' }))
    await keyboard.press('Enter')
    await page.getByRole('dialog').waitFor()
    await tabTo(page.getByLabel('Reason, for the record'))
    await keyboard.type('the invoices are wrong')
    await tabTo(page.getByRole('button', { name: 'Turn it off' }))
    await keyboard.press('Enter')
    await focused(row.getByRole('button', { name: 'Turn on…' })).waitFor()
    await keyboard.press('Enter')
    await page.getByRole('dialog').waitFor()
    await keyboard.press('Escape')
    await focused(row.getByRole('button', { name: 'Turn on…' })).waitFor()

    await open('/console/log')
    await keyboard.press('/')
    await keyboard.type('refund_payment')
    await keyboard.press('Enter')
    await page.waitForURL(/tool=refund_payment/)
    await ready(page)
    await tabTo(page.getByRole('button', { name: 'Evidence for this filter' }))
    await keyboard.press('Enter')
    await page.getByText(/^\d+ records?, about/).waitFor()
    await tabTo(page.getByRole('link', { name: 'Download the file' }))
    await keyboard.press('j')
    await keyboard.press('Enter')
    await page.waitForURL(/log\/\d+$/)
    await ready(page)

    const help = page.getByRole('dialog', { name: 'Keys' })
    await keyboard.press('?')
    await help.waitFor()
    await keyboard.press(' ')
    await keyboard.press('Escape')
    await keyboard.press('?')
    await page.getByRole('button', { name: 'Keys' }).focus()
    expect(await help.count()).to.equal(0)
    await keyboard.press('Enter')
    await help.waitFor()
    await keyboard.press(' ')
    await keyboard.press('Escape')
    await keyboard.press('?')
    await help.waitFor()
  })

  it('fits screens of 320 pixels and texts with more space, and neither cuts nor covers anything', async () => {
    const [chance, found] = [new Chance(seed), new Problems()]
    for (const path of all) {
      await open(path)
      const header = await page.locator('.top').textContent()
      for (const size of isWhole ? screens : [chance.pick(screens), screens[0]]) {
        await page.setViewportSize(size)
        for (const isSpaced of [false, true]) {
          await page.evaluate(`checks.space(${isSpaced})`)
          const problems = await page.evaluate<string[]>('checks.layoutProblems()')
          found.add(`${path} ${size.width}${isSpaced ? ', with space' : ''}`, problems)
        }
        await page.evaluate('checks.space(false)')
        // biome-ignore lint/performance/useDomNodeTextContent: what is on the screen
        const shown = (await page.locator('.top').innerText()).replaceAll(/\s/g, '')
        expect(header?.replaceAll(/\s/g, '')).to.equal(shown)
      }
    }
    expect(found.lines(), `SVC_SEED=${seed}`).to.deep.equal([])
  })

  it('has each time in the zone of the reader, and in UTC on hover', async () => {
    const found = new Problems()
    for (const path of all) {
      await open(path)
      found.add(path, await page.evaluate<string[]>("checks.wrongTimes('Europe/Berlin')"))
    }
    expect(found.lines()).to.deep.equal([])
    // Some of them have no time.
    await open('/console/overview')
    expect(await page.locator('time').count()).to.be.above(3)
  })

  it('keeps what it showed when the gateway does not respond, greyed, and says why and since when', async () => {
    const found = new Problems()
    // A call does not change, and Live has a state of its own.
    for (const path of all.filter((one) => !one.startsWith('/console/live'))) {
      await page.route('**/api/**', (route) => route.abort())
      const from = (await (await page.goto(path))?.headerValue('date')) ?? ''
      await page
        .locator('.banner', { hasText: /The gateway does not respond.*is from \d\d:\d\d:\d\d UTC/ })
        .filter({ visible: true })
        .waitFor()
      const shown = page.locator('.banner time').first()
      const since = Date.parse((await shown.getAttribute('datetime')) ?? '')
      if (Math.abs(since - Date.parse(from)) > 2_000) found.add(path, ['is from another time'])
      found.add(path, await page.evaluate<string[]>('checks.notGreyed()'))
      await page.unroute('**/api/**')
      await page.getByRole('button', { name: 'Try again' }).first().click()
      await page.locator('main .stale').first().waitFor({ state: 'detached' })
    }
    expect(found.lines()).to.deep.equal([])
  })

  it('keeps marks and what is current in the colours of a reader, and moves nothing for one who wants no motion', async () => {
    const found = new Problems()
    for (const path of all) {
      await open(path)
      found.add(path, await page.evaluate<string[]>('checks.moving()'))
      await page.emulateMedia({ forcedColors: 'active', reducedMotion: 'no-preference' })
      found.add(path, await page.evaluate<string[]>('checks.lostColours()'))
      if (path.endsWith('/servers'))
        expect(await page.evaluate<string[]>('checks.moving()')).to.not.deep.equal([])
      await page.emulateMedia({ forcedColors: null, reducedMotion: 'reduce' })
    }
    expect(found.lines()).to.deep.equal([])
  })
})

/** What is wrong, and on which pages. */
class Problems {
  readonly #places = new Map<string, string[]>()

  add(place: string, problems: readonly string[]): void {
    for (const one of problems) this.#places.set(one, [...(this.#places.get(one) ?? []), place])
  }

  lines(): string[] {
    return [...this.#places].map(([one, [first, ...more]]) => `${first} and ${more.length} more: ${one}`)
  }
}
