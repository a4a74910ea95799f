import { type Appender, type GatewayEvent, type RecordEvent, type Redactor, services } from '@svc/core'
import { expect } from 'chai'
import { rejectionOf } from '../../support/rejection.js'
import { AuditRig } from './rig.js'

const event: GatewayEvent = {
  name: 'escalations/vote',
  tenant: 'globex',
  traceId: 'a'.repeat(32),
  causeSpanId: 'b'.repeat(16),
  decision: 'allow',
  principal: { tenant: 'globex', authenticated: true, user: 'ann@globex.example', roles: ['reviewer'] },
  findings: [
    { reason: 'fs_violation', stage: 'enforcement', effect: 'escalate', detail: 'said ann@globex.example' },
  ],
  escalationId: 'esc_1',
  inputSha256: 'c'.repeat(64),
}

function recorder(section: object = {}, writer: Partial<Appender> = {}, redactor?: Redactor) {
  const rig = new AuditRig(writer)
  if (redactor !== undefined) rig.bind(services.redactor, redactor)
  const stage = rig.stage(section)
  const record: RecordEvent | undefined = rig.serviceOf(stage, services.record)
  if (record === undefined) throw new Error('audit records no events')
  return { stage, record, records: rig.records, counted: rig.meter.counted }
}

describe('the record of a gateway event', () => {
  const { signal } = new AbortController()
  const full = { append: () => Promise.reject(new Error('full')) }

  it('names the gateway as its server and the event as its tool', async () => {
    const { stage, record, records } = recorder()
    await stage.start?.(signal)
    await record(event)
    await record({ ...event, error: 'DECIDED' })
    await stage.stop?.()
    expect(records[0]).to.deep.equal({
      ts: '1970-01-01T00:00:00.000Z',
      trace_id: 'a'.repeat(32),
      span_id: '1'.padStart(16, '0'),
      cause_trace_id: 'a'.repeat(32),
      cause_span_id: 'b'.repeat(16),
      tenant: 'globex',
      server: 'gw@2.0.0',
      tool: 'escalations/vote@1',
      status: 'ok',
      latency_ms: 0,
      retries: 0,
      input_sha256: 'c'.repeat(64),
      output_sha256: null,
      policy: { decision: 'allow', retention: 'standard' },
      idempotency_key: null,
      nodeId: null,
      agentRef: null,
      agentVariables: null,
      agentMetadata: null,
      risk_tags: ['fs_violation'],
      findings: event.findings,
      principal: { user: 'ann@globex.example', roles: ['reviewer'] },
      escalation_id: 'esc_1',
      environment: records[0]?.environment,
      client_name: 'gw',
      client_version: '2.0.0',
      node_type: 'gateway',
      gateway: 'gw@2.0.0',
      policy_sha256: 'p'.repeat(64),
    })
    expect(records[1]).to.include({ status: 'error', error: 'DECIDED' })
  })

  it('contains no identities if they are redacted', async () => {
    const redactor: Redactor = {
      pseudonym: () => 'somebody',
      text: (text) => text.replace(/\S+@\S+/g, 'somebody'),
    }
    const { stage, record, records } = recorder({}, {}, redactor)
    await stage.start?.(signal)
    await record(event)
    await stage.stop?.()
    expect(records[0]?.principal).to.deep.equal({ user: 'somebody', roles: ['reviewer'] })
    expect(records[0]?.findings?.[0]).to.include({ detail: 'said somebody' })
    expect(records[0]).to.include({ tool: 'escalations/vote@1' })
  })

  it('must be written: the event is refused while the log is not open or fails', async () => {
    const { stage, record, counted } = recorder({}, full)
    expect(await rejectionOf(record(event))).to.have.property('code', 'AUDIT_UNAVAILABLE')
    await stage.start?.(signal)
    expect(await rejectionOf(record(event))).to.have.property('code', 'AUDIT_UNAVAILABLE')
    expect(counted).to.deep.equal(['svc_audit_append_failures_total', 'svc_audit_append_failures_total'])
    await stage.stop?.()
  })

  it('is counted as lost with failure_mode continue', async () => {
    const { stage, record, counted } = recorder({ failure_mode: 'continue' }, full)
    await stage.start?.(signal)
    await record(event)
    expect(counted).to.deep.equal(['svc_audit_append_failures_total'])
    await stage.stop?.()
  })
})
