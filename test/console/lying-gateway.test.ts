import { expect } from 'chai'
import type { Page } from 'playwright-core'
import { AdminClient } from 'svc-sdk/internal/cli/admin-client'
import { LocalConsole } from 'svc-sdk/internal/console/local-console'
import { adminToken, localConsoles } from '../app/admin/rig.js'
import { chromiumOfSuite } from '../support/chromium.js'
import { auditIn } from '../support/gateway.js'
import { ofSuite } from '../support/parts.js'
import { ready, startConsole } from './rig.js'

type Json = Record<string, unknown>

/** Changes the response of the gateway to a request for the path. */
type Lie = (path: string, json: Json) => void

const LIE = 'other-than-proven'

/** Members of a record that the page shows, each by its path. */
const members: readonly (readonly [path: readonly string[], value: unknown])[] = [
  [['tenant'], LIE],
  [['server'], `${LIE}@1`],
  [['tool'], `${LIE}@1`],
  [['agentRef'], LIE],
  [['principal', 'user'], LIE],
  [['error'], LIE],
  [['decided_by', 'rule'], `rule:${LIE}`],
  [['decided_by', 'stage'], LIE],
  [['findings', '0', 'reason'], LIE],
  [['findings', '0', 'detail'], LIE],
  [['kept', 'values', 'args.amount'], LIE],
  [['policy', 'decision'], 'allow'],
  [['definition_sha256'], LIE],
  [['output_sha256'], LIE],
  [['escalation_id'], LIE],
]

describe('a gateway that proves one record and states another', () => {
  const browser = chromiumOfSuite()
  let local: LocalConsole
  let page: Page
  let origin: string
  let lie: Lie
  /** Leaves of the denied refund, and of the other call. */
  let leaves: readonly [denied: number, other: number]

  const rig = ofSuite(() =>
    startConsole(browser, (home) => ({
      rules: [{ name: 'large-refunds', when: 'args.amount > 500', then: 'deny', keep: ['args.amount'] }],
      audit: { ...auditIn(home), checkpointIntervalMs: 100 },
    })),
  )
  before(async () => {
    const headers = { 'x-agent-ref': 'agent-7' }
    await rig.gateway.invoke('/mcp/billing/refund@1.0.0', { amount: 900 }, headers)
    await rig.gateway.invoke('/mcp/billing/payout@1.0.0', { amount: 1 }, headers)
    const client = await AdminClient.open(
      { url: rig.origin, tokenRef: 'env:SVC_ADMIN' },
      { SVC_ADMIN: adminToken },
    )
    lie = () => undefined
    local = new LocalConsole({
      origin: client.origin,
      fetch: async (path, init) => {
        const response = await client.fetch(path, init)
        if (!/^\/api\/(calls|records)\b/.test(path) || response.status !== 200) return response
        const json = (await response.json()) as Json
        lie(path, json)
        return Response.json(json)
      },
    })
    const link = await local.listen(0)
    origin = new URL(link).origin
    localConsoles.add(origin)
    page = await browser.open()
    await page.goto(link)
    await ready(page)
    leaves = [await leafOf('refund'), await leafOf('payout')]
  })

  beforeEach(() => {
    lie = () => undefined
  })

  after(() => local?.close())

  /** The leaf of the record, once it is sealed. */
  async function leafOf(tool: string): Promise<number> {
    await page.goto(`${origin}/console/log?tool=${tool}`)
    while ((await page.locator('.log-records tbody a').count()) === 0) await page.reload()
    return Number(await page.locator('.log-records tbody a').first().textContent())
  }

  const verdict = () => page.locator('.verify h2 .badge')

  /** What the page shows of the record, once it is judged. */
  async function shown(path: string): Promise<string> {
    await page.goto(`${origin}${path}`)
    await page.locator('.checks').waitFor()
    await page.locator('details.raw summary').click()
    return (await page.locator('main').textContent()) ?? ''
  }

  const pages = ['/console/log/', '/console/live/'] as const

  for (const path of pages) {
    it(`is believed if both are the same: ${path}`, async () => {
      const text = await shown(`${path}${leaves[0]}`)
      expect(await verdict().textContent()).to.equal('Proven')
      expect(text).to.include('From the record that is proven below.').and.include('refund')
      expect(text).to.not.include(LIE).and.not.include('Stated record')
    })

    for (const [names, value] of members)
      it(`shows the proven record, and is red: ${path} ${names.join('.')}`, async () => {
        lie = (_, json) => {
          for (const of of [json['record'], json['call']]) set(of, names, value)
        }
        const text = await shown(`${path}${leaves[0]}`)
        expect(await verdict().textContent()).to.equal('NOT PROVEN')
        expect(text).to.include('Stated recordthe gateway stated another record than the one in the proof')
        expect(text).to.include('refund').and.not.include(LIE)
        expect(await page.locator('strong.bad').first().textContent()).to.match(/^denied/)
      })

    it(`shows the proven record, and is red: ${path} of another leaf`, async () => {
      lie = (asked, json) => {
        if (!asked.endsWith('/proof')) json['leaf'] = leaves[1]
      }
      await shown(`${path}${leaves[0]}`)
      expect(await verdict().textContent()).to.equal('NOT PROVEN')
      for (const part of ['.sentence', 'details pre'])
        expect(await page.locator(part).first().textContent())
          .to.include('payout')
          .and.not.include('refund')
    })

    it(`says whose word it is while nothing is proven: ${path}`, async () => {
      lie = (asked, json) => {
        if (asked.endsWith('/proof')) {
          delete json['proof']
          json['sealed'] = false
        } else set(json['record'], ['tool'], `${LIE}@1`)
      }
      await page.goto(`${origin}${path}${leaves[0]}`)
      await page.getByText('As the gateway says: not proven.').waitFor()
      expect(await page.locator('.verify .badge.good').count()).to.equal(0)
    })
  }

  it('states what is in no record as its own word', async () => {
    lie = (_, json) => {
      json['told'] = LIE
      json['stages'] = [{ stage: LIE, from_ms: 0, to_ms: 1 }]
    }
    await shown(`/console/live/${leaves[0]}`)
    expect(await verdict().textContent()).to.equal('Proven')
    for (const panel of await page.locator('.panel', { hasText: LIE }).all())
      expect(await panel.textContent()).to.include('As the gateway says; the record does not have it.')
    expect(await page.locator('.panel', { hasText: LIE }).count()).to.equal(2)
  })

  it('states its lists as its own word', async () => {
    for (const path of ['/console/log', '/console/live', '/console/overview']) {
      await page.goto(`${origin}${path}`)
      await page.getByText(/^As the gateway says: /).waitFor()
    }
  })
})

/** Replaces a member if the object has its parents. */
function set(of: unknown, [name = '', ...rest]: readonly string[], value: unknown): void {
  if (typeof of !== 'object' || of === null) return
  if (rest.length === 0) Reflect.set(of, name, value)
  else set(Reflect.get(of, name), rest, value)
}
