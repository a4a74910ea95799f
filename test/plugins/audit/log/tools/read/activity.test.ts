import { appendFileSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Activity } from '@svc/plugin-audit/tools'
import { expect } from 'chai'
import { temporaryDir } from '../../../../../support/temporary-dir.js'
import { appenderIn, DAY, envelope } from '../../writer/records.js'

const now = Date.parse(`${DAY}T12:00:00Z`)
const dayBefore = new Date(now - 86_400_000).toISOString().slice(0, 10)

describe('Activity', () => {
  const dir = temporaryDir()

  async function append(...records: Parameters<typeof envelope>[0][]): Promise<void> {
    await using appender = appenderIn(dir.path)
    for (const record of records) await appender.append(envelope(record))
  }

  const denied = {
    policy: { decision: 'deny', retention: 'standard' },
    status: 'error',
    error: 'TOOL_NOT_ALLOWED',
  } as const

  const all = { since: now - 86_400_000, until: now }

  it('counts the calls of the last 24 hours by outcome, reason, caller and tool', async () => {
    await append(
      { ts: `${dayBefore}T11:00:00Z` },
      { ts: `${dayBefore}T13:00:00Z`, latency_ms: 10 },
      { ts: `${DAY}T09:00:00Z`, latency_ms: 30, principal: { user: 'ann', user_id: 'u1' } },
      {
        ts: `${DAY}T09:01:00Z`,
        latency_ms: 20,
        status: 'error',
        error: 'UPSTREAM',
        principal: { user: 'ann' },
      },
      { ts: `${DAY}T09:12:00Z`, ...denied, tenant: 'beta' },
      {
        ts: `${DAY}T09:13:00Z`,
        ...denied,
        findings: [
          { reason: 'rule:large', stage: 'rules', effect: 'deny' },
          { reason: 'over_size', stage: 'security', effect: 'reported' },
        ],
      },
      // An event of the gateway is not a call.
      { ts: `${DAY}T09:14:00Z`, server: 'gw@1', gateway: 'gw@1', tool: 'escalations/vote@1' },
    )
    const activity = new Activity(dir.path)
    await activity.refresh(now)
    const counts = activity.counts(all)
    expect(counts).to.deep.include({ allowed: 3, denied: 2, failed: 1, isCut: false, readFrom: undefined })
    expect(counts.latency.max).to.equal(30)
    expect(counts.reasons).to.have.deep.members([
      { reason: 'TOOL_NOT_ALLOWED', effect: 'deny', calls: 1 },
      { reason: 'rule:large', effect: 'deny', calls: 1 },
      { reason: 'over_size', effect: 'reported', calls: 1 },
    ])
    const ofAnn = counts.routes.find(({ caller }) => caller === 'ann')
    expect(ofAnn).to.include({ allowed: 2, denied: 0, failed: 1 })
    expect(counts.pairs.find(({ caller }) => caller === 'ann')).to.deep.equal({
      ...{ tenant: 'acme', caller: 'ann', server: 'files' },
      ...{ allowed: 2, denied: 0, failed: 1 },
    })
    const busy = counts.buckets.filter((one) => one.allowed + one.denied > 0)
    expect(
      busy.map(({ from, allowed, denied }) => [new Date(from).toISOString(), allowed, denied]),
    ).to.deep.equal([
      [`${dayBefore}T13:00:00.000Z`, 1, 0],
      [`${DAY}T09:00:00.000Z`, 2, 0],
      [`${DAY}T09:10:00.000Z`, 0, 2],
    ])
    expect(activity.counts({ ...all, tenant: 'beta' })).to.deep.include({ allowed: 0, denied: 1 })
  })

  it('counts the time that people took apart from that of calls', async () => {
    const event = (step: string, ts: string, escalation_id: string) => ({
      ...{ ts, server: 'gw@1', gateway: 'gw@1', tool: `escalations/${step}@1`, escalation_id },
    })
    await append(
      { ts: `${DAY}T09:00:00Z`, latency_ms: 20 },
      event('open', `${DAY}T09:01:00Z`, 'voted'),
      event('open', `${DAY}T09:01:00Z`, 'expired'),
      event('open', `${DAY}T09:01:00Z`, 'automatic'),
      event('decide', `${DAY}T09:01:00Z`, 'automatic'),
      event('vote', `${DAY}T09:03:00Z`, 'voted'),
      event('decide', `${DAY}T09:03:01Z`, 'voted'),
      { ts: `${DAY}T09:01:00Z`, latency_ms: 121_000, escalation_id: 'voted' },
      event('expire', `${DAY}T09:11:00Z`, 'expired'),
    )
    const activity = new Activity(dir.path)
    await activity.refresh(now)
    const { latency, waits, allowed } = activity.counts(all)
    expect([allowed, latency.max, waits.count, waits.max]).to.deep.equal([2, 20, 2, 600_000])
    expect(waits.p50).to.be.within(120_000, 122_300)
  })

  it('continues with new lines, and leaves a line that is not whole for the next time', async () => {
    await append({ ts: `${DAY}T09:00:00Z` })
    const activity = new Activity(dir.path)
    const [path, line] = [
      join(dir.path, `audit-${DAY}.ndjson`),
      `${JSON.stringify({ ...envelope({ ts: `${DAY}T10:00:00Z` }), sig: 'x' })}\n`,
    ]
    await activity.refresh(now)
    appendFileSync(path, line.slice(0, 100))
    await activity.refresh(now)
    expect(activity.counts(all).allowed).to.equal(1)
    appendFileSync(path, line.slice(100))
    await Promise.all([activity.refresh(now), activity.refresh(now)])
    expect(activity.counts(all).allowed).to.equal(2)
    // A day later nothing of it is kept.
    await activity.refresh(now + 86_400_000)
    expect(activity.counts({ since: now, until: now + 86_400_000 }).allowed).to.equal(0)
  })

  it('reads the end of a log that is too long, and says from when', async () => {
    await append({ ts: `${DAY}T09:00:00Z` })
    const path = join(dir.path, `audit-${DAY}.ndjson`)
    const record = JSON.parse(readFileSync(path, 'utf8'))
    const lines = Array.from({ length: 3_000 }, (_, minute) =>
      JSON.stringify({ ...record, ts: new Date(now - 3_000_000 + minute * 1_000).toISOString() }),
    )
    writeFileSync(path, `${lines.join('\n')}\n`)
    const bytes = readFileSync(path).length
    const activity = new Activity(dir.path, Math.floor(bytes / 3))
    await activity.refresh(now)
    const { allowed, readFrom = 0 } = activity.counts(all)
    expect(allowed).to.be.within(990, 1_000)
    expect(readFrom).to.equal(now - allowed * 1_000)
  })

  it('looks for the first line of the time without reading those before', async () => {
    await append({ ts: `${dayBefore}T09:00:00Z` })
    const path = join(dir.path, `audit-${dayBefore}.ndjson`)
    const record = JSON.parse(readFileSync(path, 'utf8'))
    const lines = Array.from({ length: 2_000 }, (_, second) =>
      JSON.stringify({ ...record, ts: new Date(now - 86_400_000 + (second - 1_500) * 1_000).toISOString() }),
    )
    writeFileSync(path, `${lines.join('\n')}\n`)
    // Less than the file has, and more than the lines of the time.
    const activity = new Activity(dir.path, Math.floor(readFileSync(path).length / 2))
    await activity.refresh(now)
    expect(activity.counts(all)).to.include({ allowed: 500, readFrom: undefined })
  })
})
