import {
  type Appender,
  bind,
  type Call,
  denied,
  failed,
  identity,
  type Outcome,
  tokens,
  verdict,
} from '@svc/core'
import { Pipeline } from '@svc/core/pipeline'
import { auditPlugin, auditSchema } from '@svc/plugin-audit'
import type { AuditEnvelope } from '@svc/plugin-audit/log'
import { expect } from 'chai'
import sinon from 'sinon'
import { createStage } from 'svc-sdk/testing'
import { makeCall } from '../../support/call.js'
import { makeContext } from '../../support/context.js'
import { keepingLogger } from '../../support/logger.js'

const config = auditSchema.parse({ gatewayName: 'gw', gatewayVersion: '2.0.0', environment: 'test' })

interface Recorded {
  readonly records: AuditEnvelope[]
  run(call: Call, outcome: Outcome): Promise<Outcome>
  stop(): Promise<void>
}

async function recording(now: () => number = () => 0): Promise<Recorded> {
  const records: AuditEnvelope[] = []
  const context = makeContext({ policySha256: 'p'.repeat(64) })
  bind<Appender>(context.container, tokens.SvcAppender, {
    useValue: { append: async (record) => void records.push(record as AuditEnvelope) },
  })
  bind(context.container, tokens.Clock, { useValue: { now, monotonic: now } })
  bind(context.container, tokens.Ids, {
    useValue: { traceId: () => '1'.repeat(32), spanId: () => '2'.repeat(16) },
  })
  bind(context.container, tokens.Logger, { useValue: keepingLogger() })
  bind(context.container, tokens.Meter, { useValue: { count: () => undefined } })
  let outcome: Outcome = denied('INTERNAL', 'not set')
  const pipeline = new Pipeline(
    [{ name: 'audit', stage: createStage(auditPlugin, config, context) }],
    async (call) => {
      await call.request()
      return outcome
    },
  )
  await pipeline.start()
  return {
    records,
    run(call, answer) {
      outcome = answer
      return pipeline.run(call)
    },
    stop: () => pipeline.stop(),
  }
}

const ok: Outcome = { kind: 'completed', sent: 'yes', status: 200, headers: {}, body: Buffer.from('{}') }

describe('the record of a call', () => {
  it('names the caller, the tool, the origin and the decision', async () => {
    const { records, run } = await recording()
    const call = makeCall({
      agent: { nodeId: 'node-1', agentRef: 'run-7', variables: { a: 1 }, metadata: { b: 2 } },
      request: { idempotencyKey: 'key-1' },
    })
    call.set(identity, {
      tenant: 'globex',
      authenticated: true,
      user: 'ann@globex',
      userId: 'u1',
      roles: ['ops'],
    })
    await run(call, ok)
    expect(records[0]).to.deep.include({
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

  it('has the decision deny, and why, when enforcement denied', async () => {
    const { records, run } = await recording()
    const call = makeCall()
    call.set(verdict, { mode: 'enforce', effectOf: () => 'deny' })
    call.addFinding({ reason: 'tool_in_denylist', stage: 'entitlements', detail: 'denylist' })
    await run(call, denied('TOOL_NOT_ALLOWED', 'no'))
    expect(records[0]).to.deep.include({
      status: 'error',
      error: 'TOOL_NOT_ALLOWED',
      output_sha256: null,
      policy: { decision: 'deny', retention: 'standard' },
      risk_tags: ['tool_in_denylist'],
      findings: [{ reason: 'tool_in_denylist', stage: 'entitlements', effect: 'deny', detail: 'denylist' }],
    })
  })

  it('has the decision allow, and what would have been denied, in observe mode', async () => {
    const { records, run } = await recording()
    const call = makeCall()
    call.set(verdict, { mode: 'observe', effectOf: () => 'would_deny' })
    call.addFinding({ reason: 'tool_in_denylist', stage: 'entitlements' })
    await run(call, ok)
    expect(records[0]?.policy.decision).to.equal('allow')
    expect(records[0]?.findings?.[0]).to.include({ effect: 'would_deny' })
  })

  it('distinguishes an upstream failure from a denial', async () => {
    const { records, run } = await recording()
    await run(makeCall(), failed('UPSTREAM_UNREACHABLE', 'down'))
    expect(records[0]).to.deep.include({
      error: 'UPSTREAM_UNREACHABLE',
      policy: { decision: 'allow', retention: 'standard' },
    })
  })

  it('names a risk once', async () => {
    const { records, run } = await recording()
    const call = makeCall()
    call.addFinding({ reason: 'egress_violation', stage: 'security' })
    call.addFinding({ reason: 'egress_violation', stage: 'security' })
    await run(call, ok)
    expect(records[0]?.risk_tags).to.deep.equal(['egress_violation'])
    expect(records[0]?.findings).to.have.length(2)
  })
})

describe('agent runs that callers make up', () => {
  const ann = { tenant: 'acme', authenticated: true, roles: [] }
  const named = (run: number, tenant = 'acme'): Call => {
    const agent = { nodeId: `n${run}`, agentRef: `r${run}`, parentRef: null, variables: null, metadata: null }
    const call = makeCall({ agent })
    call.set(identity, { ...ann, tenant })
    return call
  }
  const refusal = denied('TOOL_NOT_ALLOWED', 'no')

  it('are in the records of a tenant, ten thousand new ones and one more each second', async () => {
    let now = 0
    const { records, run } = await recording(() => now)
    const names = () => records.map(({ agentRef }) => agentRef).filter((name) => name !== null).length
    for (let i = 0; i < 10_100; i++) await run(named(i), refusal)
    expect(records).to.have.length(10_100)
    expect(names()).to.equal(10_000)
    await run(named(7), refusal)
    await run(named(0, 'globex'), refusal)
    expect(names()).to.equal(10_002)
    now = 2000
    for (let i = 0; i < 5; i++) await run(named(20_000 + i), refusal)
    expect(names()).to.equal(10_004)
    expect(records.at(-1)).to.include({ nodeId: 'n20004', agentRef: null, error: 'TOOL_NOT_ALLOWED' })
  })
})

describe('a flood of unauthenticated requests', () => {
  afterEach(() => sinon.restore())

  it('has fifty records of its own and one for the rest a second later', async () => {
    const clock = sinon.useFakeTimers({ now: 0, toFake: ['setTimeout', 'clearTimeout'] })
    const { records, run } = await recording()
    for (let i = 0; i < 70; i++) await run(makeCall(), denied('UNAUTHENTICATED', 'no token'))
    expect(records).to.have.length(50)
    await clock.tickAsync(1_000)
    expect(records).to.have.length(51)
    expect(records[50]).to.include({ error: 'UNAUTHENTICATED', tool: 'many@unversioned' })
    expect(records[50]?.findings?.[0]).to.include({ detail: '20 more unauthenticated requests were refused' })
  })

  it('is recorded when the gateway stops within the second', async () => {
    const { records, run, stop } = await recording()
    for (let i = 0; i < 60; i++) await run(makeCall(), denied('UNAUTHENTICATED', 'no token'))
    await stop()
    expect(records).to.have.length(51)
  })

  it('is any refusal of callers that nobody has identified, whatever its code', async () => {
    const { records, run } = await recording()
    for (let i = 0; i < 20; i++) {
      await run(makeCall(), denied('UNAUTHENTICATED', 'no token'))
      await run(makeCall(), failed('STORE_UNAVAILABLE', 'no keys'))
      await run(makeCall(), denied('UNAUTHORIZED_TENANT', 'another tenant'))
    }
    expect(records).to.have.length(50)
  })

  it('has no more bytes than its budget, however long the names are', async () => {
    const { records, run } = await recording()
    const tool = 'x'.repeat(15_000)
    for (let i = 0; i < 50; i++) await run(makeCall({ tool }), denied('UNAUTHENTICATED', 'no token'))
    expect(Buffer.byteLength(JSON.stringify(records))).to.be.lessThan(140_000)
    expect(records.length).to.be.greaterThan(5)
  })

  it('says nothing of what the callers claim to be', async () => {
    const { records, run } = await recording()
    const agent = { nodeId: 'node-1', agentRef: 'run-7', variables: { a: 1 }, metadata: { b: 2 } }
    await run(makeCall({ agent }), failed('STORE_UNAVAILABLE', 'no keys'))
    expect(records[0]).to.deep.include({
      nodeId: null,
      agentRef: null,
      agentVariables: null,
      agentMetadata: null,
    })
  })

  it('does not hide refusals of identified callers', async () => {
    const { records, run } = await recording()
    for (let i = 0; i < 60; i++) {
      const call = makeCall()
      call.set(identity, { tenant: 'globex', authenticated: true, roles: [] })
      await run(call, denied(i % 2 === 0 ? 'RATE_LIMITED' : 'UNAUTHENTICATED', 'no'))
    }
    expect(records).to.have.length(60)
  })
})
