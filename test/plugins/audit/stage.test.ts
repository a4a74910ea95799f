import { type Call, denied, failed, type Outcome, verdict } from '@svc/core'
import { expect } from 'chai'
import sinon from 'sinon'
import { makeCall } from '../../support/call.js'
import { served } from '../../support/stage-rig.js'
import { AuditRig } from './rig.js'

describe('the record of a call', () => {
  let rig: AuditRig
  let run: (call: Call, outcome: Outcome) => Promise<Outcome>

  beforeEach(async () => {
    rig = new AuditRig()
    run = await rig.runner({ environment: 'test' })
  })

  afterEach(() => rig[Symbol.asyncDispose]())

  it('names the caller, the tool, the origin and the decision', async () => {
    const call = makeCall({
      caller: { tenant: 'globex', user: 'ann@globex', userId: 'u1', roles: ['ops'] },
      agent: { nodeId: 'node-1', agentRef: 'run-7', variables: { a: 1 }, metadata: { b: 2 } },
      request: { idempotencyKey: 'key-1' },
    })
    await run(call, served)
    expect(rig.records[0]).to.deep.include({
      ts: '2026-01-01T00:00:00.000Z',
      tenant: 'globex',
      environment: 'test',
      client_name: 'gw',
      client_version: '2.0.0',
      gateway: 'gw@2.0.0',
      node_type: 'gateway',
      nodeId: 'node-1',
      agentRef: 'run-7',
      agentVariables: { a: 1 },
      agentMetadata: { b: 2 },
      idempotency_key: 'key-1',
      principal: { user: 'ann@globex', user_id: 'u1', roles: ['ops'] },
      policy: { decision: 'allow', retention: 'standard' },
      policy_sha256: 'p'.repeat(64),
    })
  })

  it('names the user and the client of the token', async () => {
    await run(makeCall({ caller: { user: 'ann@globex', client: 'assistant' } }), served)
    await run(makeCall({ caller: { clientId: 'bot', client: 'bot' } }), served)
    expect(rig.records.map(({ principal }) => principal)).to.deep.equal([
      { user: 'ann@globex', client_id: 'assistant' },
      { client_id: 'bot' },
    ])
  })

  it('has the decision deny, and why, when enforcement denied', async () => {
    const call = makeCall()
    call.set(verdict, { mode: 'enforce', effectOf: () => 'deny' })
    call.addFinding({ reason: 'tool_in_denylist', stage: 'entitlements', detail: 'denylist' })
    await run(call, denied('TOOL_NOT_ALLOWED', 'no'))
    expect(rig.records[0]).to.deep.include({
      status: 'error',
      error: 'TOOL_NOT_ALLOWED',
      output_sha256: null,
      policy: { decision: 'deny', retention: 'standard' },
      risk_tags: ['tool_in_denylist'],
      findings: [{ reason: 'tool_in_denylist', stage: 'entitlements', effect: 'deny', detail: 'denylist' }],
    })
  })

  it('has the decision allow, and what would have been denied, in observe mode', async () => {
    const call = makeCall()
    call.set(verdict, { mode: 'observe', effectOf: () => 'would_deny' })
    call.addFinding({ reason: 'tool_in_denylist', stage: 'entitlements' })
    await run(call, served)
    expect(rig.records[0]?.policy.decision).to.equal('allow')
    expect(rig.records[0]?.findings?.[0]).to.include({ effect: 'would_deny' })
  })

  it('distinguishes an upstream failure from a denial', async () => {
    await run(makeCall(), failed('UPSTREAM_UNREACHABLE', 'down'))
    expect(rig.records[0]).to.deep.include({
      error: 'UPSTREAM_UNREACHABLE',
      policy: { decision: 'allow', retention: 'standard' },
    })
  })

  it('names a risk once', async () => {
    const call = makeCall()
    call.addFinding({ reason: 'egress_violation', stage: 'security' })
    call.addFinding({ reason: 'egress_violation', stage: 'security' })
    await run(call, served)
    expect(rig.records[0]?.risk_tags).to.deep.equal(['egress_violation'])
    expect(rig.records[0]?.findings).to.have.length(2)
  })
})

describe('agent runs that callers make up', () => {
  const named = (run: number, tenant = 'acme'): Call =>
    makeCall({ caller: { tenant }, agent: { nodeId: `n${run}`, agentRef: `r${run}` } })
  const refusal = denied('TOOL_NOT_ALLOWED', 'no')

  it('are recorded for a tenant up to ten thousand new ones, and one more each second', async () => {
    await using rig = new AuditRig()
    const { records } = rig
    const run = await rig.runner()
    const names = () => records.map(({ agentRef }) => agentRef).filter((name) => name !== null).length
    for (let i = 0; i < 10_100; i++) await run(named(i), refusal)
    expect(records).to.have.length(10_100)
    expect(names()).to.equal(10_000)
    await run(named(7), refusal)
    await run(named(0, 'globex'), refusal)
    expect(names()).to.equal(10_002)
    rig.clock.advance(2000)
    for (let i = 0; i < 5; i++) await run(named(20_000 + i), refusal)
    expect(names()).to.equal(10_004)
    expect(records.at(-1)).to.include({ nodeId: 'n20004', agentRef: null, error: 'TOOL_NOT_ALLOWED' })
  })
})

describe('a flood of unauthenticated requests', () => {
  let rig: AuditRig
  let run: (call: Call, outcome: Outcome) => Promise<Outcome>

  beforeEach(async () => {
    rig = new AuditRig()
    run = await rig.runner({ environment: 'test' })
  })

  afterEach(async () => {
    sinon.restore()
    await rig[Symbol.asyncDispose]()
  })

  it('has fifty records of its own and one for the rest a second later', async () => {
    const clock = sinon.useFakeTimers({ now: 0, toFake: ['setTimeout', 'clearTimeout'] })
    for (let i = 0; i < 70; i++) await run(makeCall(), denied('UNAUTHENTICATED', 'no token'))
    expect(rig.records).to.have.length(50)
    await clock.tickAsync(1_000)
    expect(rig.records).to.have.length(51)
    expect(rig.records[50]).to.include({ error: 'UNAUTHENTICATED', tool: 'many@unversioned' })
    expect(rig.records[50]?.findings?.[0]).to.include({
      detail: '20 more unauthenticated requests were refused',
    })
  })

  it('is recorded when the gateway stops within the second', async () => {
    for (let i = 0; i < 60; i++) await run(makeCall(), denied('UNAUTHENTICATED', 'no token'))
    await rig.stop()
    expect(rig.records).to.have.length(51)
  })

  it('counts every refusal of an unidentified caller, with any code', async () => {
    for (let i = 0; i < 20; i++) {
      await run(makeCall(), denied('UNAUTHENTICATED', 'no token'))
      await run(makeCall(), failed('STORE_UNAVAILABLE', 'no keys'))
      await run(makeCall(), denied('UNAUTHORIZED_TENANT', 'another tenant'))
    }
    expect(rig.records).to.have.length(50)
  })

  it('has no more bytes than its budget, however long the names are', async () => {
    const tool = 'x'.repeat(15_000)
    for (let i = 0; i < 50; i++) await run(makeCall({ tool }), denied('UNAUTHENTICATED', 'no token'))
    expect(Buffer.byteLength(JSON.stringify(rig.records))).to.be.lessThan(140_000)
    expect(rig.records.length).to.be.greaterThan(5)
  })

  it('does not record who the callers claim to be', async () => {
    const agent = { nodeId: 'node-1', agentRef: 'run-7', variables: { a: 1 }, metadata: { b: 2 } }
    await run(makeCall({ agent }), failed('STORE_UNAVAILABLE', 'no keys'))
    expect(rig.records[0]).to.deep.include({
      nodeId: null,
      agentRef: null,
      agentVariables: null,
      agentMetadata: null,
    })
  })

  it('does not hide refusals of identified callers', async () => {
    for (let i = 0; i < 60; i++) {
      const call = makeCall({ caller: { tenant: 'globex' } })
      await run(call, denied(i % 2 === 0 ? 'RATE_LIMITED' : 'UNAUTHENTICATED', 'no'))
    }
    expect(rig.records).to.have.length(60)
  })
})
