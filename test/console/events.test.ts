import { mkdirSync, rmdirSync, writeFileSync } from 'node:fs'
import type { ServerResponse } from 'node:http'
import { join } from 'node:path'
import { PassThrough } from 'node:stream'
import { setTimeout as wait } from 'node:timers/promises'
import { expect } from 'chai'
import { EventStreams } from 'svc-sdk/internal/admin/event-stream'
import { AdminEventStream } from 'svc-sdk/internal/admin/operation'
import { CallFeed } from 'svc-sdk/internal/console/events/call-feed'
import { adminToken, ask } from '../app/admin/rig.js'
import { envelope } from '../plugins/audit/log/writer/records.js'
import { ofEachTest } from '../support/parts.js'
import { temporaryDir } from '../support/temporary-dir.js'
import { readEvents } from './event-reader.js'
import { type Payments, startPayments } from './payments.js'

const noBrowser = { problems: () => [] } as never

describe('the events of the admin API', () => {
  const rig = ofEachTest(() => startPayments(noBrowser))

  it('are calls as they are recorded, and after a lost connection those that were missed', async () => {
    await using events = await readEvents(rig.origin)
    await events.next('status')
    await rig.call('billing/get_invoice', { invoice: 'I1' })
    await rig.call('crm/delete_contact', { id: 1 })
    const rows: Record<string, unknown>[] = []
    let id = ''
    while (rows.length < 2) {
      const { data, id: last = '' } = await events.next('calls')
      rows.push(...(data['rows'] as typeof rows))
      id = last
    }
    expect(rows.map(({ tool, decision, caller, agent }) => [tool, decision, caller, agent])).to.deep.equal([
      ['get_invoice', 'allow', 'bob@example.com', 'agent-7'],
      ['delete_contact', 'deny', 'bob@example.com', 'agent-7'],
    ])
    // The log is read once for all who watch, so the call is behind the place from which new ones are sent.
    await using other = await readEvents(rig.origin)
    await other.next('status')
    await events[Symbol.asyncDispose]()
    await rig.call('billing/get_invoice', { invoice: 'I2' })
    await other.next('calls')
    const headers = { authorization: `Bearer ${adminToken}`, 'last-event-id': id }
    await using again = await readEvents(rig.origin, '', headers)
    const { data } = await again.next('calls')
    expect(data).to.deep.include({ seen: 1, one_in: 1, is_backfill: true })
    expect((data['rows'] as typeof rows)[0]).to.include({ tool: 'get_invoice' })
  })

  it('name the escalations that changed, and the number that waits', async () => {
    await using events = await readEvents(rig.origin, '?calls=none')
    expect((await events.next('status')).data).to.include({
      pending: 0,
      mode: 'enforce',
      gateway: 'gw@1.0.0',
    })
    const id = await rig.waits('billing/refund_payment', { amount: 240 })
    expect((await events.next('status')).data).to.include({ pending: 1 })
    expect((await events.next('escalations')).data).to.deep.equal({ changed: [id] })
  })

  it('are for each person in 16 places at once, so that nobody keeps others out', async () => {
    const as = async (user: string, more = {}) => {
      const token = await rig.issuer.sign({ email: user, sub: user, roles: ['auditor'], ...more })
      return { authorization: `Bearer ${token}` }
    }
    const [bo, cy] = [await as('bo@example.com'), await as('cy@example.com')]
    const tokens = [
      bo,
      await as('bo@example.com', { azp: 'another-client', client_id: 'another-client' }),
      await as('bo@example.com', { scope: 'openid audit' }),
      await as('bo@example.com', { roles: ['auditor', 'another'] }),
    ]
    const places = await Promise.all(
      Array.from({ length: 16 }, (_, n) => readEvents(rig.origin, '?calls=none', tokens[n % tokens.length])),
    )
    for (const place of places) await place.next('status')
    const refused = await ask(rig.origin, '/api/events?calls=none', { headers: bo })
    expect([refused.status, refused.json['error']]).to.deep.equal([429, 'RATE_LIMITED'])
    expect(refusalsOf(rig)).to.deep.equal(['RATE_LIMITED'])
    await using another = await readEvents(rig.origin, '?calls=none', cy)
    await another.next('status')
    for (const place of places) await place[Symbol.asyncDispose]()
  })

  it("show a reviewer their tenant's calls alone, and end with the token", async () => {
    const token = await rig.issuer.sign(
      { email: 'rae@globex.example', org: 'globex', roles: ['approver'] },
      { expiresIn: 2 },
    )
    await using events = await readEvents(rig.origin, '', { authorization: `Bearer ${token}` })
    await events.next('status')
    await rig.call('billing/get_invoice', { invoice: 'I1' })
    await rig.call('billing/get_invoice', { invoice: 'I2' }, { user: 'gus@globex.example', tenant: 'globex' })
    const { data } = await events.next('calls')
    // Nor do they learn how many calls others made.
    expect(data['seen']).to.equal(1)
    expect((data['rows'] as { caller: string }[]).map(({ caller }) => caller)).to.deep.equal([
      'gus@globex.example',
    ])
    const calls = await ask(rig.origin, '/api/calls', { headers: { authorization: `Bearer ${token}` } })
    expect((calls.json['calls'] as unknown[]).length).to.equal(1)
    expect((await events.next('end')).data).to.include({ error: 'UNAUTHENTICATED' })
    expect(refusalsOf(rig)).to.deep.equal(['UNAUTHENTICATED'])
  })
})

function refusalsOf({ gateway }: Payments): unknown[] {
  return gateway
    .records()
    .flatMap(({ tool, error }) => (tool === 'admin/watch_events@1' && error !== undefined ? [error] : []))
}

describe('the feed of calls', () => {
  const home = temporaryDir()

  it('tells all who watch that reading failed, also once the first has left', async () => {
    const dir = join(home.path, 'audit')
    mkdirSync(dir)
    const feed = CallFeed.of(dir)
    const failures: string[] = []
    const watchAs = (name: string) =>
      feed.watch(
        '',
        () => undefined,
        () => void failures.push(name),
      )
    const [first, second, third] = [await watchAs('first'), await watchAs('second'), await watchAs('third')]
    first()
    rmdirSync(dir)
    writeFileSync(dir, 'not a directory')
    const end = performance.now() + 5_000
    while (failures.length < 2 && performance.now() < end) await wait(20)
    second()
    third()
    expect([...new Set(failures)]).to.deep.equal(['second', 'third'])
  })

  it('counts calls and no events of the gateway, also if it reads a part of them', async () => {
    const dir = join(home.path, 'audit')
    mkdirSync(dir)
    const day = '2026-11-20'
    const [call, event] = ['get_invoice@1', 'admin/read@1'].map((tool) => {
      const changes = { ts: `${day}T10:00:00.000Z`, server: 'gw@1', gateway: 'gw@1', tool }
      return `${JSON.stringify(envelope(changes))}\n`
    })
    writeFileSync(join(dir, `audit-${day}.ndjson`), `${call}${event}`.repeat(375))
    const batches: unknown[] = []
    const stop = await CallFeed.of(dir).watch(
      `${day}:0`,
      ({ rows, seen, oneIn }) => void batches.push([rows.length, seen, oneIn]),
      () => undefined,
    )
    stop()
    expect(batches).to.deep.equal([[125, 375, 3]])
  })
})

describe('a client of events that reads nothing', () => {
  it('is cut off, whatever it is sent', async () => {
    const unread = Object.assign(new PassThrough(), { writeHead: () => undefined })
    let sent = 0
    const run = new AdminEventStream(async ({ signal, send }) => {
      while (!signal.aborted && sent < 100) {
        send('status', { text: 'x'.repeat(65_536) })
        sent++
        await wait(0)
      }
    })
    await new EventStreams().write(unread as unknown as ServerResponse, run)
    expect(unread.destroyed).to.equal(true)
    expect(sent).to.be.within(16, 24)
  })
})
