// What the page of an escalation shows beside it: why it was opened, what else was called, how its call ended.
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Escalation } from '@svc/plugin-enforcement'
import { expect } from 'chai'
import { callsAround } from 'svc-sdk/internal/console/calls/find-calls'
import type { ContextJson } from 'svc-sdk/internal/console/calls/operations'
import { adminToken, ask } from '../app/admin/rig.js'
import { envelope } from '../plugins/audit/log/writer/records.js'
import { chromiumOfSuite } from '../support/chromium.js'
import { temporaryDir } from '../support/temporary-dir.js'
import { type Payments, startPayments } from './payments.js'

const noBrowser = { problems: () => [] } as never
const headers = { authorization: `Bearer ${adminToken}` }

async function contextOf(rig: Payments, id: string): Promise<ContextJson> {
  const { json } = await ask(rig.origin, `/api/escalations/${id}/context`, { headers })
  return json as unknown as ContextJson
}

describe('the context of an escalation', () => {
  const browser = chromiumOfSuite()

  it('has the last ten calls of the caller and of the tool, the newest first', async () => {
    await using rig = await startPayments(browser)
    for (let n = 1; n <= 12; n++) await rig.call('billing/refund_payment', { amount: n })
    const id = await rig.waits('billing/refund_payment', { amount: 240 })
    const page = await rig.pageOf('mia@example.com', `/console/approvals/${id}`)
    const lists = page.locator('.call-list')
    for (const list of await lists.all()) {
      const shown = await list.locator('tbody tr').allInnerTexts()
      expect(shown.map((row) => /amount (\d+)/.exec(row)?.[1])).to.deep.equal([
        '240',
        '12',
        '11',
        '10',
        '9',
        '8',
        '7',
        '6',
        '5',
        '4',
      ])
    }
    expect(await lists.count()).to.equal(2)
  })

  it('has the rule, the reason, the last calls and the outcome, also if the policy hides arguments', async () => {
    await using rig = await startPayments(noBrowser, undefined, ', show_arguments: false')
    await rig.call('billing/get_invoice', { invoice: 'I1' })
    const id = await rig.waits('billing/refund_payment', { amount: 240 }, { reason: 'the customer asks' })
    expect(await rig.escalation(id)).to.not.have.property('args')
    const waiting = await contextOf(rig, id)
    expect(waiting.rule?.lines.join()).to.include('refunds-over-100')
    expect(waiting.agent_reason).to.equal('the customer asks')
    expect(waiting.severity_reason).to.equal('may have side effects, by its name and method')
    expect(waiting.caller_calls.map(({ tool }) => tool)).to.deep.equal(['refund_payment', 'get_invoice'])
    expect(waiting.tool_calls.map(({ tool }) => tool)).to.deep.equal(['refund_payment'])
    expect(waiting.outcome).to.equal(undefined)
    const viewer = await rig.issuer.sign({ email: 'vi@example.com', sub: 'vi', roles: ['viewer'] })
    const { json: outline } = await ask(rig.origin, `/api/escalations/${id}/context`, {
      headers: { authorization: `Bearer ${viewer}` },
    })
    expect(outline).to.have.all.keys('vote_refusal', 'caller_calls', 'tool_calls')
    expect([outline['caller_calls'], outline['tool_calls']]).to.deep.equal([[], []])
    await rig.vote(id, 'approve')
    await rig.call('billing/refund_payment', { amount: 240 })
    const { outcome } = await contextOf(rig, id)
    expect(outcome).to.include({ status: 'ok', sent: 'yes', tool: 'refund_payment' })
  })

  it('says of a call without a response that it may have been sent, and the page asks no more', async () => {
    await using rig = await startPayments(
      browser,
      undefined,
      '',
      {},
      (_call, response) => void response.destroy(),
    )
    const id = await rig.waits('billing/refund_payment', { amount: 240 })
    const page = await rig.pageOf('cy@example.com', `/console/approvals/${id}`)
    await rig.vote(id, 'approve')
    await rig.call('billing/refund_payment', { amount: 240 })
    const { outcome } = await contextOf(rig, id)
    expect(outcome).to.include({ status: 'error', sent: 'unknown' })
    await page.locator('.banner .steps li').nth(1).getByText('may have been sent').waitFor()
    const steps = await page.locator('.banner .steps li').allTextContents()
    expect(steps.slice(0, 2)).to.deep.equal(['approved', 'may have been sent'])
  })
})

describe('the calls around an escalation', () => {
  const home = temporaryDir()
  const day = '2026-11-20'
  const start = Date.parse(`${day}T10:00:00.000Z`)
  const traceId = 'e'.repeat(32)

  const line = (seconds: number, user: string, more = {}) => {
    const ts = new Date(start + seconds * 1000).toISOString()
    const call = {
      ts,
      tenant: 'acme',
      server: 'billing@1.0.0',
      tool: 'refund_payment@1.0.0',
      principal: { user },
    }
    return `${JSON.stringify(envelope({ ...call, ...more }))}\n`
  }

  it('are those before it and the one that used it, however much was recorded since', async () => {
    const used = { escalation_id: 'esc_1', trace_id: traceId, sent: 'yes' }
    const other = line(0, 'others@example.com', { tool: 'get_invoice@1.0.0' })
    const filler = (seconds: number, bytes: number) =>
      line(seconds, 'others@example.com', { tool: 'get_invoice@1.0.0' }).repeat(
        Math.ceil(bytes / other.length),
      )
    const text = [
      filler(0, 3_000_000),
      ...Array.from({ length: 12 }, (_, n) => line(60 + n, 'bob@example.com')),
      line(100, 'bob@example.com', { ...used, sent: 'no' }),
      filler(110, 3_000_000),
      line(195, 'bob@example.com', used),
      filler(210, 12_000_000),
    ]
    writeFileSync(join(home.path, `audit-${day}.ndjson`), text.join(''))
    const escalation = {
      ...{
        id: 'esc_1',
        tenant: 'acme',
        server: 'billing',
        tool: 'refund_payment',
        principal: 'bob@example.com',
        principalKind: 'user',
      },
      ...{ createdAt: start + 101_000, isUsed: true, usedAt: start + 195_000 },
    } as Escalation
    const { outcome, byCaller, byTool } = await callsAround(home.path, escalation)
    expect(outcome).to.include({ sent: 'yes', at: new Date(start + 195_000).toISOString() })
    for (const calls of [byCaller, byTool]) {
      expect(calls).to.have.length(10)
      expect(new Set(calls.map(({ caller }) => caller))).to.deep.equal(new Set(['bob@example.com']))
    }
    const [first, second] = await Promise.all([1, 2].map(() => callsAround(home.path, escalation)))
    expect(first, 'one search for all who look at it').to.equal(second)
  })
})
