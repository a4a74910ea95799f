import { type Call, type DecisionEvaluator, type Outcome, type Stage, tokens } from '@svc/core'
import { runtimePlugin } from '@svc/plugin-runtime'
import { expect } from 'chai'
import { makeCall } from '../../support/call.js'
import { StageRig, send, served } from '../../support/stage-rig.js'
import { startSetup, unusedUrl } from './gateway.js'

/** A stage whose evaluator fails until `recover()`. */
class Trial extends StageRig {
  evaluations = 0
  evaluate: DecisionEvaluator['evaluate'] = () => Promise.reject(new Error('connection lost'))
  readonly stage: Stage

  constructor() {
    super()
    this.bind(tokens.DecisionEvaluator, {
      evaluate: (request, signal) => {
        this.evaluations++
        return this.evaluate(request, signal)
      },
    })
    this.stage = this.create(runtimePlugin, {})
  }

  async call(call: Call = makeCall()): Promise<Outcome> {
    return (await send(this.stage, call)).outcome
  }

  recover(): void {
    this.evaluate = async () => ({ action: 'allow' })
  }

  async fail(times: number): Promise<void> {
    for (let i = 0; i < times; i++) expect(await this.call()).to.include({ code: 'RUNTIME_UNAVAILABLE' })
  }
}

describe('the circuit breaker of a runtime', () => {
  let trial: Trial

  beforeEach(async () => {
    trial = new Trial()
    await trial.stage.start?.(new AbortController().signal)
  })

  afterEach(async () => {
    await trial.stage.stop?.()
    await trial[Symbol.asyncDispose]()
  })

  it('opens after five consecutive failures and then refuses calls without a request', async () => {
    await trial.fail(5)
    await trial.fail(3)
    expect(trial.evaluations).to.equal(5)
    expect(trial.meter.values.get('svc_runtime_skipped_total')).to.equal(3)
    expect(trial.meter.values.get('svc_runtime_failures_total')).to.equal(5)
  })

  it('stays closed when a success interrupts the failures', async () => {
    await trial.fail(4)
    trial.recover()
    expect(await trial.call()).to.equal(served)
    trial.evaluate = () => Promise.reject(new Error('again'))
    await trial.fail(4)
    expect(trial.evaluations).to.equal(9)
  })

  it('probes after one second and closes on success', async () => {
    await trial.fail(5)
    trial.clock.advance(999)
    await trial.fail(1)
    expect(trial.evaluations).to.equal(5)
    trial.clock.advance(1)
    trial.recover()
    expect(await trial.call()).to.equal(served)
    expect(await trial.call()).to.equal(served)
  })

  it('allows one probe at a time and refuses other calls meanwhile', async () => {
    await trial.fail(5)
    trial.clock.advance(1000)
    let response = (): void => undefined
    trial.evaluate = () =>
      new Promise((resolve) => {
        response = () => resolve({ action: 'allow' })
      })
    const probe = trial.call()
    await trial.call()
    await trial.fail(2)
    expect(trial.evaluations).to.equal(6)
    response()
    expect(await probe).to.equal(served)
    trial.recover()
    expect(await trial.call()).to.equal(served)
  })

  it('doubles the cooldown after each failed probe up to 30 seconds and reports it in Retry-After', async () => {
    await trial.fail(5)
    for (const seconds of [1, 2, 4, 8, 16, 30, 30]) {
      trial.clock.advance(0)
      expect(await trial.call()).to.have.deep.property('headers', { 'retry-after': String(seconds) })
      trial.clock.advance(seconds * 1000)
      await trial.fail(1)
    }
    expect(trial.evaluations).to.equal(5 + 7)
    trial.clock.advance(30_000)
    trial.recover()
    await trial.call()
    trial.evaluate = () => Promise.reject(new Error('once more'))
    await trial.fail(5)
    expect(await trial.call()).to.have.deep.property('headers', { 'retry-after': '1' })
  })

  it('does not count invalid responses, which cost no time', async () => {
    trial.evaluate = async () => ({ action: 'allow', obligations: [{ type: 'sing' }] })
    await trial.fail(9)
    expect(trial.evaluations).to.equal(9)
  })

  it('allows another probe when the caller of a probe leaves', async () => {
    await trial.fail(5)
    trial.clock.advance(1000)
    trial.evaluate = () => new Promise(() => undefined)
    const call = makeCall()
    const probe = trial.call(call).then(
      () => 'responded',
      (reason: unknown) => reason,
    )
    await call.request()
    call.abort('UPSTREAM_UNREACHABLE', 'The caller left.')
    expect(await probe).to.have.property('message', 'The caller left.')
    trial.recover()
    expect(await trial.call()).to.equal(served)
  })

  it('survives a reload', async () => {
    await trial.fail(5)
    const { outcome } = await send(await trial.start(runtimePlugin))
    expect(outcome).to.include({ code: 'RUNTIME_UNAVAILABLE' })
    expect(trial.evaluations).to.equal(5)
  })

  it('forgets the failures of a caller after a minute', async () => {
    await trial.fail(4)
    trial.clock.advance(60_001)
    await trial.fail(4)
    expect(trial.evaluations).to.equal(8)
  })

  it('logs failures of one kind once a minute, also if other calls succeed between them', async () => {
    const fail = trial.evaluate
    const failAndSucceed = async (): Promise<void> => {
      for (let i = 0; i < 3; i++) {
        trial.evaluate = fail
        await trial.fail(1)
        trial.recover()
        await trial.call()
      }
    }
    await failAndSucceed()
    expect(trial.log.lines.map(({ message }) => message)).to.deep.equal(['a call could not be evaluated'])
    trial.clock.advance(60_000)
    await failAndSucceed()
    expect(trial.log.lines).to.have.length(2)
  })

  it('is a warning in /readyz, which stays ready, if the gateway cannot connect to the runtime', async () => {
    await using setup = await startSetup({ endpoint: await unusedUrl(), remote: { maxRetries: 0 } })
    const ready = async () => (await fetch(`${setup.gateway.url}/readyz`)).json()
    for (let i = 0; i < 5; i++) await setup.call()
    expect(await ready()).to.deep.equal({
      status: 'ready',
      warnings: [
        'runtime: the runtime cannot be reached or fails for several callers; calls are refused with RUNTIME_UNAVAILABLE',
      ],
    })
  })
})
