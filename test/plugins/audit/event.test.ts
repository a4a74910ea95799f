import {
  type Appender,
  bind,
  type GatewayEvent,
  type RecordEvent,
  type Redactor,
  services,
  type Token,
  tokens,
} from '@svc/core'
import { auditPlugin, auditSchema } from '@svc/plugin-audit'
import type { AuditEnvelope } from '@svc/plugin-audit/log'
import { expect } from 'chai'
import { createStage } from 'svc-sdk/testing'
import { makeContext } from '../../support/context.js'
import { keepingLogger } from '../../support/logger.js'

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

async function recorder(section: object = {}, append?: Appender['append'], redactor?: Redactor) {
  const records: AuditEnvelope[] = []
  const log = keepingLogger()
  const counted: string[] = []
  const context = makeContext({
    policySha256: 'p'.repeat(64),
    service: <T>(service: Token<T>) => (service === services.redactor ? (redactor as T) : undefined),
  })
  bind<Appender>(context.container, tokens.SvcAppender, {
    useValue: { append: append ?? (async (record) => void records.push(record as AuditEnvelope)) },
  })
  bind(context.container, tokens.Clock, { useValue: { now: () => 0, monotonic: () => 0 } })
  bind(context.container, tokens.Ids, {
    useValue: { traceId: () => '1'.repeat(32), spanId: () => '2'.repeat(16) },
  })
  bind(context.container, tokens.Logger, { useValue: log })
  bind(context.container, tokens.Meter, { useValue: { count: (name) => void counted.push(name) } })
  const config = auditSchema.parse({ gatewayName: 'gw', gatewayVersion: '2.0.0', ...section })
  const stage = createStage(auditPlugin, config, context)
  const record: RecordEvent | undefined = stage.offer?.(services.record)
  if (record === undefined) throw new Error('audit records no events')
  return { stage, record, records, log, counted }
}

async function faultOf(promise: Promise<unknown>): Promise<unknown> {
  return promise.then(
    () => undefined,
    (fault: unknown) => fault,
  )
}

describe('the record of a gateway event', () => {
  const { signal } = new AbortController()

  it('names the gateway as its server and the event as its tool', async () => {
    const { stage, record, records } = await recorder()
    await stage.start?.(signal)
    await record(event)
    await record({ ...event, error: 'DECIDED' })
    await stage.stop?.()
    expect(records[0]).to.deep.equal({
      ts: '1970-01-01T00:00:00.000Z',
      trace_id: 'a'.repeat(32),
      span_id: '2'.repeat(16),
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

  it('contains no identities where they are redacted', async () => {
    const redactor: Redactor = {
      pseudonym: () => 'somebody',
      text: (text) => text.replace(/\S+@\S+/g, 'somebody'),
    }
    const { stage, record, records } = await recorder({}, undefined, redactor)
    await stage.start?.(signal)
    await record(event)
    await stage.stop?.()
    expect(records[0]?.principal).to.deep.equal({ user: 'somebody', roles: ['reviewer'] })
    expect(records[0]?.findings?.[0]).to.include({ detail: 'said somebody' })
    expect(records[0]).to.include({ tool: 'escalations/vote@1' })
  })

  it('must be written: the event is refused while the log is not open or fails', async () => {
    const { stage, record, counted } = await recorder({}, () => Promise.reject(new Error('full')))
    expect(await faultOf(record(event))).to.have.property('code', 'AUDIT_UNAVAILABLE')
    await stage.start?.(signal)
    expect(await faultOf(record(event))).to.have.property('code', 'AUDIT_UNAVAILABLE')
    expect(counted).to.deep.equal(['svc_audit_append_failures_total', 'svc_audit_append_failures_total'])
    await stage.stop?.()
  })

  it('is counted as lost with failure_mode continue', async () => {
    const { stage, record, counted } = await recorder({ failure_mode: 'continue' }, () =>
      Promise.reject(new Error('full')),
    )
    await stage.start?.(signal)
    await record(event)
    expect(counted).to.deep.equal(['svc_audit_append_failures_total'])
    await stage.stop?.()
  })
})
