import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { AuditEnvelope } from '@svc/plugin-audit/log'
import { expect } from 'chai'
import { auditCommand } from 'svc-sdk/internal/cli/audit'
import { appenderIn, DAY, envelope } from '../../plugins/audit/log/writer/records.js'
import { runCommand } from '../../support/command.js'
import { temporaryDir } from '../../support/temporary-dir.js'

describe('svc audit show --trace', () => {
  const dir = temporaryDir()
  const log = (name: string) => join(dir.path, name)
  const trace = (id: string, ...names: string[]) =>
    runCommand(auditCommand, ['show', ...names.map(log), '--trace', id])

  async function write(name: string, records: readonly Partial<AuditEnvelope>[]): Promise<void> {
    await using appender = appenderIn(log(name))
    for (const record of records) await appender.append(envelope(record))
  }
  const at = (second: number) => `${DAY}T10:00:0${second}Z`
  const caused = (trace: string, span: string) => ({ cause_trace_id: trace, cause_span_id: span })

  it('prints the calls of several logs below the calls that caused them', async () => {
    await write('edge', [
      { trace_id: 'f0', span_id: 'f2' },
      { trace_id: 'e1', span_id: 'a', tool: 'plan@1', ts: at(0) },
    ])
    // The grandchild is read before the call that caused it, and has a trace of its own.
    await write('inner', [
      { trace_id: 'e3', span_id: 'd', tool: 'fourth@1', ts: at(4), ...caused('e2', 'c') },
      {
        trace_id: 'e1',
        span_id: 'b',
        tool: 'second@1',
        ts: at(1),
        status: 'error',
        error: 'TOOL_NOT_ALLOWED',
        policy: { decision: 'deny', retention: 'standard' },
        ...caused('e1', 'a'),
      },
      { trace_id: 'e2', span_id: 'c', tool: 'third@1', ts: at(2), ...caused('e1', 'a') },
    ])
    const { out, code } = await trace('e1', 'edge', 'inner')
    expect(code).to.equal(0)
    expect(out).to.equal(
      [
        `files@1.0.0/plan@1  allow  ok  1.50 ms  ${at(0)}  acme  [edge]`,
        `├─ files@1.0.0/second@1  deny  error  TOOL_NOT_ALLOWED  1.50 ms  ${at(1)}  acme  [inner]`,
        `└─ files@1.0.0/third@1  allow  ok  1.50 ms  ${at(2)}  acme  [inner]`,
        `   └─ files@1.0.0/fourth@1  allow  ok  1.50 ms  ${at(4)}  acme  [inner]`,
        '',
      ].join('\n'),
    )
  })

  it('prints calls whose causes are missing, or name each other', async () => {
    await write('log', [
      { trace_id: 'e0', span_id: 'a', tool: 'a@1', ts: at(0), ...caused('e0', 'b') },
      { trace_id: 'e0', span_id: 'b', tool: 'b@1', ts: at(1), ...caused('e0', 'a') },
      { trace_id: 'e0', span_id: 'c', tool: 'c@1', ts: at(2), ...caused('e0', 'f1') },
      { trace_id: 'e0', span_id: 'd', tool: 'd@1', ts: at(3), ...caused('e0', 'd') },
    ])
    const { out } = await trace('e0', 'log')
    const calls = out.split('\n').map((line) => line.split('  allow')[0])
    expect(calls.map((call) => call?.replace('files@1.0.0/', ''))).to.have.members(
      ['a@1', 'b@1', 'c@1', 'd@1', ''].map((call) => (call === 'a@1' ? '└─ a@1' : call)),
    )
  })

  it('marks a record whose signature is wrong', async () => {
    await write('log', [{ trace_id: 'e0', span_id: 'a', tool: 'a@1' }])
    const file = join(log('log'), `audit-${DAY}.ndjson`)
    writeFileSync(file, readFileSync(file, 'utf8').replace('"tool":"a@1"', '"tool":"b@1"'))
    expect((await trace('e0', 'log')).out).to.include('/b@1  allow  ok  BAD_SIGNATURE')
  })

  it('reports in one line an unknown trace, and several logs without --trace', async () => {
    await write('log', [{}])
    expect((await trace('none', 'log')).err).to.equal(
      'svc-sdk audit show: there is no record of the trace none\n',
    )
    const { err } = await runCommand(auditCommand, ['show', log('log'), log('log')])
    expect(err).to.equal('svc-sdk audit show: several logs are read only with --trace\n')
  })
})
