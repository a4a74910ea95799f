// Numbers and names on the pages of the console, against the API and the lines of the log.
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { SignedEnvelope } from '@svc/plugin-audit/log'
import { expect } from 'chai'
import type { Page } from 'playwright-core'
import { adminToken, ask } from '../app/admin/rig.js'
import { chromiumOfSuite } from '../support/chromium.js'
import { TemporaryDir } from '../support/temporary-dir.js'
import { pastDay } from './past-day.js'
import { type ConsoleRig, ready, startConsole } from './rig.js'

const CALLS = 700

/** The numbers in a text, without separators of thousands. */
const numbersIn = (text: string) =>
  (text.match(/\d[\d,]*(?:\.\d+)?/g) ?? []).map((one) => one.replaceAll(',', ''))

describe('what the console shows', () => {
  const home = new TemporaryDir()
  const browser = chromiumOfSuite()
  let rig: ConsoleRig
  let page: Page
  let log: SignedEnvelope[]

  before(async () => {
    const day = await pastDay(home.path, Date.now(), CALLS)
    const target = 'http://127.0.0.1:1'
    rig = await startConsole(browser, {
      ...day,
      targets: { billing: target, crm: target, mail: target },
      entitlements: 'open',
    })
    page = await rig.page('/console/overview')
    const { dir } = day.audit
    log = readdirSync(dir)
      .filter((name) => /^audit-.*\.ndjson$/.test(name))
      .flatMap((name) => readFileSync(join(dir, name), 'utf8').trim().split('\n'))
      .map((line) => JSON.parse(line) as SignedEnvelope)
      .filter(({ tool }) => !tool.includes('/'))
  })

  after(async () => {
    await rig?.[Symbol.asyncDispose]()
    home[Symbol.dispose]()
  })

  const api = async (path: string) =>
    (await ask(rig.origin, path, { headers: { authorization: `Bearer ${adminToken}` } })).json
  const open = async (path: string) => {
    await page.goto(path)
    await ready(page)
  }
  const denied = () => log.filter(({ policy }) => policy.decision === 'deny')
  const failed = () => log.filter(({ policy, status }) => policy.decision !== 'deny' && status === 'error')

  it('has in the overview the sums of the log, and each reason as often as the log has it', async () => {
    await open('/console/overview')
    const figures = await page.locator('.figures dd').allTextContents()
    expect(figures.slice(0, 3).map((text) => numbersIn(text)[0])).to.deep.equal(
      [log.length, denied().length, failed().length].map(String),
    )
    const counts = new Map<string, number>()
    for (const { findings = [] } of log)
      for (const { reason } of findings) counts.set(reason, (counts.get(reason) ?? 0) + 1)
    const shown = await page
      .locator('section', { hasText: 'Why calls did not pass' })
      .locator('section.panel li')
      .allTextContents()
    const reasons = shown.filter((text) => /(?:denied|asked a person)$/.test(text.trim()))
    expect(reasons).to.have.length(counts.size)
    for (const [reason, calls] of counts)
      expect(
        reasons.some(
          (text) => text.startsWith(reason) && numbersIn(text.slice(reason.length))[0] === `${calls}`,
        ),
        `${reason}: ${calls}`,
      ).to.equal(true)
  })

  it('has in the graph the calls of each caller and server', async () => {
    await open('/console/servers')
    const nodes = await page.locator('.node, .hub').allTextContents()
    const sums = (of: readonly SignedEnvelope[]) => {
      const refused = of.filter(({ policy }) => policy.decision === 'deny').length
      return { sent: of.length - refused, denied: refused }
    }
    const groups = new Map<string, SignedEnvelope[]>()
    for (const record of log)
      for (const name of [String(record.principal?.user), record.server.replace(/@.*/, ''), 'gw'])
        groups.set(name, [...(groups.get(name) ?? []), record])
    for (const [name, of] of groups) {
      const { sent, denied: refused } = sums(of)
      const text = nodes.find((one) => one.replace(/^svc/, '').startsWith(name)) ?? ''
      expect(text.replaceAll(',', ''), name).to.include(`${sent} sent`)
      if (refused > 0) expect(text.replaceAll(',', ''), name).to.include(`${refused} denied`)
    }
  })

  it('has in Live and in the log the rows of the API, in the order of their times', async () => {
    const rowsOf = async (path: string, rows: string) => {
      await open(path)
      return page.locator(rows).allTextContents()
    }
    const { calls } = (await api('/api/calls?limit=200')) as {
      calls: { server: string; tool: string; caller: string; decision: string; at: string }[]
    }
    const live = await rowsOf('/console/live', '.calls tbody tr')
    const { records } = (await api('/api/records?kind=call')) as { records: { record: SignedEnvelope }[] }
    const logged = await rowsOf('/console/log', '.log-records tbody tr')
    const newest = [...calls].sort((one, other) => (one.at < other.at ? 1 : -1))
    expect(live).to.have.length(calls.length)
    for (const [at, { server, tool, caller, decision }] of newest.entries())
      expect(live[at]).to.include(`${server}/${tool}`).and.include(caller).and.match(word(decision))
    const byTime = records.map(({ record }) => record).sort((one, other) => (one.ts < other.ts ? 1 : -1))
    expect(logged).to.have.length(records.length)
    for (const [at, record] of byTime.entries())
      expect(logged[at])
        .to.include(`${record.server}/${record.tool}`.replaceAll('@1.2.0', ''))
        .and.include(String(record.principal?.user))
        .and.match(word(record.policy.decision))
  })
})

/** How a decision is shown; a call that was sent may have failed. */
function word(decision: string): RegExp {
  return decision === 'deny' ? /denied|waits/ : /allowed|failed/
}
