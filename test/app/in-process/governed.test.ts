import { bind } from '@svc/core'
import { timer } from '@svc/plugin-security'
import { expect } from 'chai'
import { type CallContext, type GovernanceError, governed, isGovernanceError } from 'svc-sdk'
import { rejectionOf } from '../../support/rejection.js'
import { FunctionsRig } from './rig.js'

const refund = { server: 'billing', name: 'refund', version: '1.0.0' }

async function refusalOf(call: Promise<unknown>): Promise<GovernanceError> {
  const error = await rejectionOf(call)
  if (!isGovernanceError(error)) throw error
  return error
}

const entitlements = {
  default_plan: 'free',
  plans: { free: { allowlist: [] } },
  tenants: {
    acme: { plan: 'free', allowlist: ['billing/refund'], users: { 'bob@x.example': { denylist: ['*'] } } },
  },
}

describe('a governed function', () => {
  it('runs with the arguments, and its call is recorded', async () => {
    await using rig = new FunctionsRig()
    const run = governed(rig.pipeline, refund, ({ amount }: { amount: number }) => ({ refunded: amount }))
    expect(await run({ amount: 10 })).to.deep.equal({ refunded: 10 })
    expect(rig.records()).to.have.length(1)
    expect(rig.records()[0]).to.include({
      server: 'billing@1.0.0',
      tool: 'refund@1.0.0',
      status: 'ok',
      tenant: 'acme',
    })
  })

  it('gets a copy of the arguments that the policy checked, in their order', async () => {
    await using rig = new FunctionsRig()
    let seen: unknown
    const run = governed(rig.pipeline, refund, (args: object) => {
      seen = args
    })
    let reads = 0
    const sly = {
      z: 1,
      get amount() {
        return reads++ < 2 ? 10 : 1_000_000
      },
    }
    await run(sly)
    expect(JSON.stringify(seen)).to.equal('{"z":1,"amount":10}')
  })

  it('does not run if the call is denied: the error has code, reason and trace, and the denial is recorded', async () => {
    await using rig = new FunctionsRig({ entitlements })
    let runs = 0
    const run = governed(rig.pipeline, { ...refund, name: 'wipe' }, () => runs++)
    const error = await refusalOf(run({}))
    expect(error).to.include({ code: 'TOOL_NOT_ALLOWED' })
    expect(error.details).to.deep.include({ sent: 'no' })
    expect(error.details.denial?.reason).to.equal('tool_not_in_allowlist')
    expect(error.message).to.match(/^TOOL_NOT_ALLOWED \(tool_not_in_allowlist\): /)
    expect(runs).to.equal(0)
    expect(rig.records()[0]).to.deep.include({ error: 'TOOL_NOT_ALLOWED', trace_id: error.details.traceId })
  })

  it('has the caller that the program names instead of a token', async () => {
    await using rig = new FunctionsRig({ entitlements, authn: {} })
    const run = governed(rig.pipeline, refund, () => 'done')
    const as = (user: string): CallContext => ({ identity: { tenant: 'acme', user } })
    expect(await run({}, as('ada@x.example'))).to.equal('done')
    expect((await refusalOf(run({}, as('bob@x.example')))).code).to.equal('TOOL_NOT_ALLOWED')
    expect((await refusalOf(run({}))).code).to.equal('UNAUTHENTICATED')
    expect(rig.records().map(({ principal }) => principal?.user)).to.deep.equal([
      'ada@x.example',
      'bob@x.example',
      undefined,
    ])
  })

  it('runs once for an idempotency key; a repetition gets the first result', async () => {
    await using rig = new FunctionsRig({ dedupe: {} })
    let runs = 0
    const run = governed(rig.pipeline, refund, () => ({ run: ++runs }))
    const context = { idempotencyKey: 'order-7' }
    expect(await run({ amount: 1 }, context)).to.deep.equal({ run: 1 })
    expect(await run({ amount: 1 }, context)).to.deep.equal({ run: 1 })
    expect((await refusalOf(run({ amount: 2 }, context))).code).to.equal('IDEMPOTENCY_KEY_REUSED')
    expect(runs).to.equal(1)
  })

  it('fails with the error of the function, which is recorded as an error', async () => {
    await using rig = new FunctionsRig()
    const error = new RangeError('too much')
    const run = governed(rig.pipeline, refund, () => {
      throw error
    })
    expect(await rejectionOf(run({}))).to.equal(error)
    expect(rig.records()[0]).to.include({ status: 'error', error: 'UPSTREAM' })
  })

  it('fails at a time limit of the policy, even if the function continues', async () => {
    let expire = (): void => undefined
    await using rig = new FunctionsRig({
      security: { limits: { max_duration_ms: 20 } },
      configure: (container) =>
        bind(container, timer, {
          useValue: {
            after: (_ms, run) => {
              expire = run
              return () => undefined
            },
            now: () => 0,
          },
        }),
    })
    let signal: AbortSignal | undefined
    const run = governed(rig.pipeline, refund, (_args: object, call) => {
      signal = call.signal
      expire()
      return new Promise<never>(() => undefined)
    })
    expect((await refusalOf(run({}))).code).to.equal('DURATION_EXCEEDED')
    expect(signal?.aborted).to.equal(true)
  })

  it('can be cancelled by its caller', async () => {
    await using rig = new FunctionsRig()
    const cancel = new AbortController()
    const run = governed(rig.pipeline, refund, () => {
      cancel.abort()
      return new Promise<never>(() => undefined)
    })
    const error = await refusalOf(run({}, { signal: cancel.signal }))
    expect(error.code).to.equal('CANCELLED')
    expect(error.details.sent).to.equal('yes')
    let runs = 0
    const never = governed(rig.pipeline, refund, () => runs++)
    expect((await refusalOf(never({}, { signal: cancel.signal }))).details.sent).to.equal('no')
    expect(runs).to.equal(0)
  })

  it('waits for an approval if the caller wants to wait', async () => {
    await using rig = new FunctionsRig({
      entitlements: { ...entitlements, tenants: {} },
      security: {
        side_effects: { approve_high_risk: true, human_escalation: { approval_strategy: 'auto_allow' } },
      },
      enforcement: { escalate_on: ['tool_not_in_allowlist'] },
    })
    const run = governed(rig.pipeline, refund, () => 'done')
    expect(await run({}, { waitSec: 5 })).to.equal('done')
    expect(rig.records().some(({ escalation_id }) => escalation_id !== undefined)).to.equal(true)
  })

  it('refuses arguments and results that JSON does not carry', async () => {
    await using rig = new FunctionsRig()
    await rig.pipeline.ready()
    const run = governed(rig.pipeline, refund, () => ({ amount: Number.NaN }))
    expect(await rejectionOf(run({ amount: Number.NaN }))).to.have.property('code', 'non_finite_number')
    expect(rig.records()).to.have.length(0)
    expect(await rejectionOf(run({}))).to.have.property('code', 'non_finite_number')
    expect(rig.records()[0]).to.include({ status: 'error' })
  })

  it('follows a reloaded policy, and is refused after the pipeline is closed', async () => {
    await using rig = new FunctionsRig()
    const run = governed(rig.pipeline, refund, () => 'done')
    expect(await run({})).to.equal('done')
    await rig.pipeline.reload({ entitlements: { ...entitlements, tenants: {} } })
    expect((await refusalOf(run({}))).code).to.equal('TOOL_NOT_ALLOWED')
    await rig.pipeline.close()
    expect(await rejectionOf(run({}))).to.match(/closed/)
  })
})
