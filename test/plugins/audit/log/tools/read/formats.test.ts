import { readFileSync } from 'node:fs'
import type { SignedEnvelope } from '@svc/plugin-audit/log'
import { toEcs, toOcsf } from '@svc/plugin-audit/tools'
import { Ajv2020 } from 'ajv/dist/2020.js'
import { expect } from 'chai'
import { envelope } from '../../writer/records.js'

const denied: SignedEnvelope = {
  ...envelope({
    status: 'error',
    error: 'TOOL_NOT_ALLOWED',
    policy: { decision: 'deny', retention: 'standard' },
    findings: [{ reason: 'tool_in_denylist', stage: 'entitlements', effect: 'deny' }],
    principal: { user: 'ann@globex', user_id: 'u1', roles: ['ops'] },
    gateway: 'gw@2.0.0',
    environment: 'prod',
    mcp_method: 'tools/call',
    nodeId: 'node-1',
    latency_ms: 1.5,
  }),
  sig: 'ed25519:AA==',
}
const read: SignedEnvelope = { ...envelope({ mcp_method: 'resources/read' }), sig: 'ed25519:AA==' }

/** Of the framework, as scripts/ocsf-schema.mjs compiles it. */
const apiActivity = JSON.parse(
  readFileSync(new URL('../../../../../../fixtures/ocsf/api-activity.json', import.meta.url), 'utf8'),
)

const members: Partial<SignedEnvelope>[] = [
  { status: 'error', error: 'TOOL_NOT_ALLOWED', policy: { decision: 'deny', retention: 'standard' } },
  { findings: [{ reason: 'tool_in_denylist', stage: 'entitlements', effect: 'deny' }] },
  { principal: { user: 'ann@globex', user_id: 'u1', roles: ['ops'] } },
  { principal: { client_id: 'robot' } },
  { gateway: 'gw@2.0.0', server: 'billing' },
  { nodeId: 'node-1' },
  { agentRef: 'run-1' },
  { mcp_method: 'resources/read' },
  { latency_ms: 1.5 },
  { client_name: 'desktop', idempotency_key: 'k1', environment: 'prod' },
  { input_sha256: 'sha256:00', output_sha256: 'sha256:01' },
]

/** A record for each choice of these members. */
const withAndWithout = (some: Partial<SignedEnvelope>[]) =>
  Array.from({ length: 2 ** some.length }, (_, chosen): SignedEnvelope => {
    const taken = some.filter((_, index) => (chosen & (1 << index)) !== 0)
    return { ...envelope(Object.assign({}, ...taken)), sig: 'ed25519:AA==' }
  })

describe('toOcsf', () => {
  it('makes events of the class API Activity, whatever members a record has', () => {
    const isEvent = new Ajv2020({ allErrors: true, strict: false }).compile(apiActivity)
    for (const record of withAndWithout(members)) {
      isEvent(toOcsf(record))
      expect(isEvent.errors, JSON.stringify(record)).to.equal(null)
    }
    expect(isEvent({ ...toOcsf(read), ai_agent: { uid: 'a' } }), 'without its profile').to.equal(false)
    expect(isEvent({ ...toOcsf(read), verdict: 'deny' }), 'not of the framework').to.equal(false)
  })

  it('reports denied and blocked, and why', () => {
    expect(toOcsf(denied)).to.deep.include({
      class_uid: 6003,
      type_uid: 600399,
      time: Date.parse(denied.ts),
      status_id: 2,
      status_code: 'TOOL_NOT_ALLOWED',
      action_id: 2,
      disposition_id: 2,
      actor: { app_name: 'unknown', user: { name: 'ann@globex', uid: 'u1', groups: [{ name: 'ops' }] } },
      src_endpoint: { name: 'node-1' },
    })
  })

  it('reports allowed and read for a method that only reads', () => {
    expect(toOcsf(read)).to.include({
      activity_id: 2,
      type_uid: 600302,
      action_id: 1,
      disposition_id: 1,
      status_id: 1,
    })
  })

  it('names the agent if there is no user', () => {
    const record: SignedEnvelope = { ...read, principal: { client_id: 'robot' } }
    expect(toOcsf(record)['actor']).to.deep.equal({ app_name: 'robot' })
  })
})

describe('toEcs', () => {
  it('reports who was denied what, and why', () => {
    expect(toEcs(denied)).to.deep.include({
      '@timestamp': denied.ts,
      event: {
        kind: 'event',
        category: ['api'],
        type: ['access', 'denied'],
        action: 'tools/call',
        outcome: 'failure',
        duration: 1_500_000,
        code: 'TOOL_NOT_ALLOWED',
        reason: 'tool_in_denylist',
      },
      user: { name: 'ann@globex', id: 'u1', roles: ['ops'] },
      trace: { id: denied.trace_id },
      span: { id: denied.span_id },
      organization: { id: 'acme' },
    })
  })

  it('reports allowed and success, without unknown members', () => {
    const document = toEcs(read)
    expect(document['event']).to.deep.include({ type: ['access', 'allowed'], outcome: 'success' })
    expect(document).not.to.have.any.keys('user', 'error')
  })
})
