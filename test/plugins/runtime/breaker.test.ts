import { bind, type Call, type DecisionEvaluator, type Outcome, type Stage, tokens } from '@svc/core'
import { runtimePlugin } from '@svc/plugin-runtime'
import { expect } from 'chai'
import { createStage, FakeClock, type FakeContext, fakeContext } from 'svc-sdk/testing'
import { makeCall } from '../../support/call.js'
import { keepingLogger } from '../../support/logger.js'
import { decide, KeepingMeter, respond, startRig } from './rig.js'

const served: Outcome = { kind: 'completed', sent: 'yes', status: 200, headers: {}, body: new Uint8Array() }

/** A stage whose evaluator fails until it is mended. */
class Trial {
  readonly context: FakeContext = fakeContext('/')
  readonly meter = new KeepingMeter()
  readonly log = keepingLogger()
  asked = 0
  evaluate: DecisionEvaluator['evaluate'] = () => Promise.reject(new Error('the wire is cut'))
  readonly stage: Stage

  constructor() {
    const { container } = this.context
    const evaluator: DecisionEvaluator = {
      evaluate: (request, signal) => {
        this.asked++
        return this.evaluate(request, signal)
      },
    }
    bind(container, tokens.DecisionEvaluator, { useValue: evaluator })
    bind(container, tokens.Meter, { useValue: this.meter })
    bind(container, tokens.Logger, { useValue: this.log })
    this.stage = this.create()
  }

  create(): Stage {
    return createStage(runtimePlugin, {}, this.context)
  }

  async call(call: Call = makeCall()): Promise<Outcome> {
    return this.stage.handle(call, async () => served)
  }

  mend(): void {
    this.evaluate = async () => ({ action: 'allow' })
  }

  async fail(times: number): Promise<void> {
    for (let i = 0; i < times; i++) expect(await this.call()).to.include({ code: 'RUNTIME_UNAVAILABLE' })
  }

  get isOpen(): number | undefined {
    return this.meter.values.get('svc_runtime_circuit_open')
  }
}

describe('the circuit to a runtime', () => {
  let trial: Trial

  beforeEach(async () => {
    trial = new Trial()
    await trial.stage.start?.(new AbortController().signal)
  })

  afterEach(() => trial.stage.stop?.())

  it('opens after five failures in a row: nobody is asked any more, and calls are answered at once', async () => {
    await trial.fail(5)
    expect(trial.isOpen).to.equal(1)
    await trial.fail(3)
    expect(trial.asked).to.equal(5)
    expect(trial.meter.values.get('svc_runtime_skipped_total')).to.equal(3)
    expect(trial.meter.values.get('svc_runtime_failures_total')).to.equal(5)
  })

  it('stays closed while an answer comes now and then', async () => {
    await trial.fail(4)
    trial.mend()
    expect(await trial.call()).to.equal(served)
    trial.evaluate = () => Promise.reject(new Error('again'))
    await trial.fail(4)
    expect(trial.asked).to.equal(9)
    expect(trial.isOpen).to.equal(undefined)
  })

  it('lets one call ask after a second, and closes when that is answered', async () => {
    await trial.fail(5)
    trial.context.clock.advance(999)
    await trial.fail(1)
    expect(trial.asked).to.equal(5)
    trial.context.clock.advance(1)
    trial.mend()
    expect(await trial.call()).to.equal(served)
    expect(trial.isOpen).to.equal(0)
    expect(await trial.call()).to.equal(served)
  })

  it('lets only one ask: the others do not wait for it', async () => {
    await trial.fail(5)
    trial.context.clock.advance(1000)
    let answer = (): void => undefined
    trial.evaluate = () =>
      new Promise((resolve) => {
        answer = () => resolve({ action: 'allow' })
      })
    const probe = trial.call()
    await trial.call()
    await trial.fail(2)
    expect(trial.asked).to.equal(6)
    answer()
    expect(await probe).to.equal(served)
    trial.mend()
    expect(await trial.call()).to.equal(served)
  })

  it('rests twice as long each time the probe fails, half a minute at most, and says so to callers', async () => {
    await trial.fail(5)
    for (const seconds of [1, 2, 4, 8, 16, 30, 30]) {
      trial.context.clock.advance(0)
      expect(await trial.call()).to.have.deep.property('headers', { 'retry-after': String(seconds) })
      trial.context.clock.advance(seconds * 1000)
      await trial.fail(1)
    }
    expect(trial.asked).to.equal(5 + 7)
    trial.context.clock.advance(30_000)
    trial.mend()
    await trial.call()
    trial.evaluate = () => Promise.reject(new Error('once more'))
    await trial.fail(5)
    expect(await trial.call()).to.have.deep.property('headers', { 'retry-after': '1' })
  })

  it('is not opened by answers that decide nothing: they cost no time', async () => {
    trial.evaluate = async () => ({ action: 'allow', obligations: [{ type: 'sing' }] })
    await trial.fail(9)
    expect(trial.asked).to.equal(9)
    expect(trial.isOpen).to.equal(undefined)
  })

  it('keeps the place of a probe whose caller left for the next one', async () => {
    await trial.fail(5)
    trial.context.clock.advance(1000)
    trial.evaluate = () => new Promise(() => undefined)
    const call = makeCall()
    const probe = trial.call(call).then(
      () => 'answered',
      (reason: unknown) => reason,
    )
    await call.request()
    call.abort('UPSTREAM_UNREACHABLE', 'The caller left.')
    expect(await probe).to.have.property('message', 'The caller left.')
    trial.mend()
    expect(await trial.call()).to.equal(served)
  })

  it('is one for the stages of a reload', async () => {
    await trial.fail(5)
    const next = trial.create()
    await next.start?.(new AbortController().signal)
    try {
      expect(await next.handle(makeCall(), async () => served)).to.include({ code: 'RUNTIME_UNAVAILABLE' })
      expect(trial.asked).to.equal(5)
    } finally {
      await next.stop?.()
    }
  })

  it('is told in the log when it opens and when it closes, not for every call', async () => {
    await trial.fail(12)
    trial.context.clock.advance(1000)
    trial.mend()
    for (let i = 0; i < 3; i++) await trial.call()
    expect(trial.log.lines.map(({ level, message }) => `${level}: ${message}`)).to.deep.equal([
      'warn: a call could not be evaluated',
      'error: the runtime failed again and again and is left alone for a while',
      'warn: the runtime answers again',
    ])
  })

  it('is told by /readyz as a warning, as calls that need no verdict are served', async () => {
    const clock = new FakeClock()
    let isUp = false
    await using rig = await startRig({
      clock,
      remote: { maxRetries: 0 },
      runtime: (response) => (isUp ? decide(response, { action: 'allow' }) : respond(response, 503, {})),
    })
    const ready = async () => (await fetch(`${rig.gateway.url}/readyz`)).json()
    for (let i = 0; i < 7; i++) await rig.call()
    expect(rig.asked).to.have.length(5)
    expect(await ready()).to.deep.equal({
      status: 'ready',
      warnings: ['runtime: the runtime failed 5 times in a row; calls are answered RUNTIME_UNAVAILABLE'],
    })
    isUp = true
    clock.advance(1000)
    expect((await rig.call()).status).to.equal(200)
    expect(await ready()).to.deep.equal({ status: 'ready' })
  })
})
