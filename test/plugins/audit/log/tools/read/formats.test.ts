import type { SignedEnvelope } from '@svc/plugin-audit/log'
import { toEcs, toOcsf } from '@svc/plugin-audit/tools'
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

describe('toOcsf', () => {
  it('has every required attribute of the class API Activity', () => {
    expect(toOcsf(denied)).to.include.all.keys(
      'activity_id',
      'actor',
      'api',
      'category_uid',
      'class_uid',
      'metadata',
      'severity_id',
      'src_endpoint',
      'time',
      'type_uid',
    )
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
