import { createHash } from 'node:crypto'
import { expect } from 'chai'
import { type AuditEnvelope, AuditError } from 'svc-sdk/audit'
import { daily, envelope, openLog } from './log.js'
import { type CallResult, serving } from './rig.js'
import { contractSection } from './section.js'

const hex = (text: string) => createHash('sha256').update(text).digest('hex')

/** A gateway whose log was written by one full call, and by one that was refused. */
async function recorded() {
  const rig = await serving({
    security: { egress_allowlist: ['good.example'], side_effects: { require_idempotency_key: true } },
  })
  const state = { variables: { goal: 'invoice' }, metadata: { model: 'm' } }
  const headers = {
    'x-node-id': 'node-1',
    'x-agent-ref': 'run-1',
    'x-agent-state': Buffer.from(JSON.stringify(state)).toString('base64url'),
    'idempotency-key': 'order-1',
    'x-cause-trace': 'a'.repeat(32),
    'x-cause-span': 'b'.repeat(16),
  }
  const full = await rig.call({ args: { b: 1, a: 2 }, headers })
  const denied = await rig.call({ args: { url: 'https://evil.example/' } })
  return { rig, full, denied, [Symbol.asyncDispose]: () => rig[Symbol.asyncDispose]() }
}

interface Field {
  readonly letter: string
  readonly text: string
  check(full: CallResult, denied: CallResult): void
}

const fields: readonly Field[] = [
  {
    letter: 'a',
    text: '`ts` is an ISO 8601 timestamp.',
    check: ({ record }) => expect(new Date(record.ts).toISOString()).to.equal(record.ts),
  },
  {
    letter: 'b',
    text: '`trace_id` is the trace id, hexadecimal.',
    check: ({ record, headers }) => {
      expect(record.trace_id).to.match(/^[0-9a-f]{32}$/)
      expect(headers.get('traceparent')).to.include(record.trace_id)
    },
  },
  {
    letter: 'c',
    text: '`span_id` is the span id, hexadecimal.',
    check: ({ record, headers }) => {
      expect(record.span_id).to.match(/^[0-9a-f]{16}$/)
      expect(headers.get('x-span-id')).to.equal(record.span_id)
    },
  },
  {
    letter: 'd',
    text: '`tenant` is the tenant.',
    check: ({ record }) => expect(record.tenant).to.equal('acme'),
  },
  {
    letter: 'e',
    text: '`environment` is the environment.',
    check: ({ record }) => expect(record.environment).to.equal('dev'),
  },
  {
    letter: 'f',
    text: '`client_name` is the client application.',
    check: ({ record }) => expect(record.client_name).to.equal('gw'),
  },
  {
    letter: 'g',
    text: '`client_version` is its version.',
    check: ({ record }) => expect(record.client_version).to.equal('1.0.0'),
  },
  {
    letter: 'h',
    text: '`server` has the form `<name>@<version>`.',
    check: ({ record }) => expect(record.server).to.equal('files@1.0.0'),
  },
  {
    letter: 'i',
    text: '`tool` has the form `<name>@<version>`.',
    check: ({ record }) => expect(record.tool).to.equal('read@1.0.0'),
  },
  {
    letter: 'j',
    text: '`status` is `ok` or `error`, the outcome.',
    check: (full, denied) =>
      expect([full.record.status, denied.record.status]).to.deep.equal(['ok', 'error']),
  },
  {
    letter: 'k',
    text: '`latency_ms` is the latency in milliseconds, a number.',
    check: ({ record }) => expect(record.latency_ms).to.be.a('number').within(0, 60_000),
  },
  {
    letter: 'l',
    text: '`retries` is the retry count, a number.',
    check: ({ record }) => expect(record.retries).to.equal(0),
  },
  {
    letter: 'm',
    text: '`input_sha256` is the SHA-256 of the canonicalized input.',
    check: ({ record }) => expect(record.input_sha256).to.equal(hex('{"a":2,"b":1}')),
  },
  {
    letter: 'n',
    text: '`output_sha256` is the SHA-256 of the tool output.',
    check: ({ record, body }) => expect(record.output_sha256).to.equal(hex(JSON.stringify(body))),
  },
  {
    letter: 'o',
    text: '`output_sha256` is null if there was no output.',
    check: (_full, { record }) => expect(record.output_sha256).to.equal(null),
  },
  {
    letter: 'p',
    text: '`policy.decision` is `allow` or `deny`.',
    check: (full, denied) =>
      expect([full.record.policy.decision, denied.record.policy.decision]).to.deep.equal(['allow', 'deny']),
  },
  {
    letter: 'q',
    text: '`policy.retention` is the retention class.',
    check: ({ record }) => expect(record.policy.retention).to.equal('standard'),
  },
  {
    letter: 'r',
    text: '`idempotency_key` is the key of the call, or null.',
    check: (full, denied) =>
      expect([full.record.idempotency_key, denied.record.idempotency_key]).to.deep.equal(['order-1', null]),
  },
  {
    letter: 's',
    text: '`nodeId` is the node identifier, or null.',
    check: (full, denied) =>
      expect([full.record.nodeId, denied.record.nodeId]).to.deep.equal(['node-1', null]),
  },
  {
    letter: 't',
    text: '`agentRef` is the agent run reference, or null.',
    check: (full, denied) =>
      expect([full.record.agentRef, denied.record.agentRef]).to.deep.equal(['run-1', null]),
  },
  {
    letter: 'u',
    text: '`agentVariables` is an object of the agent state, or null.',
    check: (full, denied) =>
      expect([full.record.agentVariables, denied.record.agentVariables]).to.deep.equal([
        { goal: 'invoice' },
        null,
      ]),
  },
  {
    letter: 'v',
    text: '`sig` has the form `ed25519:<BASE64>`.',
    check: ({ record }) => expect(record.sig).to.match(/^ed25519:[A-Za-z0-9+/]{86}==$/),
  },
  {
    letter: 'w',
    text: 'The envelope carries the cause trace and span, and agent metadata.',
    check: ({ record }) =>
      expect(record).to.deep.include({
        cause_trace_id: 'a'.repeat(32),
        cause_span_id: 'b'.repeat(16),
        agentMetadata: { model: 'm' },
      }),
  },
  {
    letter: 'x',
    text: 'The envelope carries risk tags and findings.',
    check: (_full, { record }) => {
      expect(record.risk_tags).to.deep.equal(['egress_violation'])
      expect(record.findings?.[0]).to.include({ reason: 'egress_violation', effect: 'deny' })
    },
  },
]

const wrongTypes: Partial<Record<keyof AuditEnvelope, unknown>> = {
  ts: 'yesterday',
  trace_id: 7,
  span_id: undefined,
  tenant: null,
  environment: 1,
  client_name: {},
  client_version: [],
  server: '',
  tool: 3,
  status: 'done',
  latency_ms: '3',
  retries: '0',
  input_sha256: 1,
  output_sha256: {},
  policy: { decision: 'maybe', retention: 'standard' },
  idempotency_key: 5,
  nodeId: 5,
  agentRef: {},
  agentVariables: 'x',
}

contractSection('2.1', 'Audit envelope', ({ holds, given }) => {
  const all = given(recorded)
  for (const { letter, text, check } of fields) {
    holds(letter, text, () => check(all().full, all().denied))
  }

  holds('y', 'Every field has the type that the table gives: `append` rejects another.', async () => {
    await using log = await openLog()
    for (const [field, value] of Object.entries(wrongTypes)) {
      const changes = { [field]: value } as Partial<AuditEnvelope>
      const error = await log.appender.append(envelope(changes)).catch((thrown: unknown) => thrown)
      expect(error, field).to.be.instanceOf(AuditError)
    }
    expect(log.has(daily) ? log.lines(daily) : []).to.deep.equal([])
  })
})
