import { appendFileSync } from 'node:fs'
import { join } from 'node:path'
import { type LogFilter, logStats, readLog } from '@svc/plugin-audit/tools'
import { expect } from 'chai'
import { rejectionOf } from '../../../../../support/rejection.js'
import { temporaryDir } from '../../../../../support/temporary-dir.js'
import { appenderIn, DAY, envelope } from '../../writer/records.js'

describe('readLog', () => {
  const dir = temporaryDir()

  const records = [
    envelope({ ts: '2026-11-20T09:00:00Z', tenant: 'beta', tool: 'write@2.0.0' }),
    envelope({ ts: `${DAY}T09:00:00Z`, nodeId: 'n1', agentRef: 'r1' }),
    envelope({ ts: `${DAY}T10:00:00Z`, status: 'error', trace_id: 'abc' }),
    envelope({
      ts: `${DAY}T11:00:00Z`,
      policy: { decision: 'deny', retention: 'standard' },
      server: 'mail@1.0.0',
    }),
  ]

  beforeEach(async () => {
    await using appender = appenderIn(dir.path)
    for (const record of records) await appender.append(record)
  })

  async function indexes(filter: LogFilter): Promise<number[]> {
    const found: number[] = []
    for await (const record of readLog(dir.path, filter)) {
      found.push(records.findIndex((candidate) => candidate.span_id === record.span_id))
    }
    return found
  }

  for (const [filter, expected] of [
    [{}, [0, 1, 2, 3]],
    [{ since: DAY }, [1, 2, 3]],
    [{ since: `${DAY}T10:00:00Z`, until: `${DAY}T11:00:00Z` }, [2]],
    [{ until: `${DAY}T10:00:00+01:00` }, [0]],
    [{ tenant: 'beta' }, [0]],
    [{ tool: 'write' }, [0]],
    [{ tool: 'write@2.0.0' }, [0]],
    [{ tool: 'writ' }, []],
    [{ server: 'mail' }, [3]],
    [{ decision: 'deny' }, [3]],
    [{ status: 'error' }, [2]],
    [{ traceId: 'abc' }, [2]],
    [{ agent: 'r1' }, [1]],
    [{ agent: 'n1' }, [1]],
    [{ limit: 2 }, [0, 1]],
  ] as const) {
    it(`returns the records that match ${JSON.stringify(filter)}`, async () => {
      expect(await indexes(filter)).to.deep.equal(expected)
    })
  }

  it('refuses a bound that is not a time', async () => {
    const error = await indexes({ since: 'yesterday' }).then(null, (reason) => reason)
    expect(error.code).to.equal('bad_timestamp')
  })

  it('fails at a line that is not a record, unless the caller handles it', async () => {
    appendFileSync(join(dir.path, `audit-${DAY}.ndjson`), 'garbage\n')
    expect((await indexes({}).then(null, (reason) => reason)).message).to.include(':4 is not a record')
    const bad: unknown[] = []
    for await (const _ of readLog(dir.path, {}, { onBadLine: (place) => bad.push(place) }));
    expect(bad).to.deep.equal([{ file: `audit-${DAY}.ndjson`, line: 4 }])
  })
})

describe('a bound that is not a time', () => {
  it('is refused with its text and the accepted forms', async () => {
    const reading = readLog('.', { since: 'yesterday' }).next()
    const error = await rejectionOf(reading)
    expect(error.message).to.match(
      /^since is "yesterday", neither a day \(2026-01-31\) nor an ISO 8601 instant/,
    )
  })
})

describe('logStats', () => {
  const dir = temporaryDir()

  it('counts calls, denials by reason, and latency percentiles within 1 %', async () => {
    const appender = appenderIn(dir.path)
    const deny = { decision: 'deny', retention: 'standard' } as const
    for (let ms = 1; ms <= 100; ms++) void appender.append(envelope({ latency_ms: ms }))
    const finding = { reason: 'tool_in_denylist', stage: 'entitlements', effect: 'deny' } as const
    void appender.append(
      envelope({ tool: 'other@1', latency_ms: 0, status: 'error', policy: deny, findings: [finding] }),
    )
    void appender.append(
      envelope({ tool: 'other@1', latency_ms: 0, status: 'error', policy: deny, error: 'RATE_LIMITED' }),
    )
    await appender.append(envelope({ status: 'error', latency_ms: 50 }))
    await appender.close()
    const stats = await logStats(dir.path)
    expect(stats).to.deep.include({ calls: 103, allowed: 101, denied: 2, errors: 1 })
    expect(stats.denialsByReason).to.deep.equal({ tool_in_denylist: 1, RATE_LIMITED: 1 })
    expect(stats.tools.map((tool) => [tool.tool, tool.calls, tool.denials, tool.errors])).to.deep.equal([
      ['files@1.0.0/read@1.0.0', 101, 0, 1],
      ['files@1.0.0/other@1', 2, 2, 0],
    ])
    const [read, other] = stats.tools
    expect(read?.p50).to.be.closeTo(50, 0.5)
    expect(read?.p99).to.be.closeTo(99, 1)
    expect(read?.max).to.equal(100)
    expect(other).to.include({ p50: 0, p99: 0, max: 0 })
  })

  it('counts escalation reasons, and does not count escalation events as calls', async () => {
    const appender = appenderIn(dir.path)
    const deny = { decision: 'deny', retention: 'standard' } as const
    const reason = 'tool_not_in_allowlist'
    const findings = [{ reason, stage: 'entitlements', effect: 'escalate' } as const]
    const asked = { policy: deny, gateway: 'gw@1', escalation_id: 'esc_1', findings }
    const held = { latency_ms: 60_000, error: 'ESCALATION_PENDING' } as const
    void appender.append(envelope({ ...asked, ...held, status: 'error' }))
    await appender.append(envelope({ ...asked, server: 'gw@1', tool: 'escalations/open@1' }))
    await appender.close()
    const stats = await logStats(dir.path)
    expect(stats).to.deep.include({ calls: 1, denied: 1, denialsByReason: { [reason]: 1 } })
    // The time for which it waited for people is not the latency of its tool.
    expect(stats.tools[0]?.max).to.equal(0)
  })
})
