import {
  type Call,
  denied,
  type Finding,
  isStream,
  type Next,
  type Outcome,
  type Settlement,
  type Verdict,
  verdict,
} from '@svc/core'
import { type CallControl, Pipeline } from '@svc/core/pipeline'
import { expect } from 'chai'
import sinon from 'sinon'
import { controlOf, makeCall } from '../../support/call.js'
import { signalled } from '../../support/signalled.js'
import { served } from '../../support/stage-rig.js'

const found: Finding = { reason: 'too_hot', stage: 'probe' }
const denying: Verdict = { mode: 'enforce', effectOf: () => 'deny' }

/** The call through a stage like this, behind one that gives the verdict; `executed` counts what was sent. */
async function run(
  handle: (call: Call, next: Next) => unknown,
  rule: Verdict = denying,
  begun: (control: CallControl) => void = () => undefined,
) {
  const call = makeCall()
  const settlements: Settlement[] = []
  call.onSettle((settlement) => void settlements.push(settlement))
  let executed = 0
  const judge = (judged: Call, next: Next) => {
    judged.set(verdict, rule)
    return next()
  }
  const stages = [
    { name: 'judge', stage: { handle: judge } },
    { name: 'probe', stage: { handle: handle as (call: Call, next: Next) => Outcome } },
  ]
  const pipeline = new Pipeline(stages, async (call) => {
    const refused = await call.commitHolds()
    if (refused !== undefined) return refused
    executed++
    return served
  })
  const running = pipeline.run(controlOf(call))
  begun(controlOf(call))
  return { outcome: await running, call, settlements, executed }
}

describe('a finding after the verdict', () => {
  const reporting = (finding: Finding) => (call: Call, next: Next) => {
    call.addFinding(finding)
    return next()
  }
  const reportingLate = (finding: Finding) => async (call: Call, next: Next) => {
    const outcome = await next()
    call.addFinding(finding)
    return outcome
  }

  it('denies a call that was not sent', async () => {
    const { outcome, executed } = await run(reporting(found))
    expect(outcome).to.deep.include({ kind: 'denied', code: 'TOOL_NOT_ALLOWED' })
    expect(executed).to.equal(0)
  })

  it('fails a call that was sent, and denies it if the finding is marked as late', async () => {
    const failing = await run(reportingLate(found))
    expect(failing.outcome).to.include({ kind: 'failed', code: 'TOOL_NOT_ALLOWED' })
    expect(failing.settlements[0]).to.include({ sent: 'yes', error: 'TOOL_NOT_ALLOWED' })
    const late = await run(reportingLate({ ...found, isLate: true }))
    expect(late.outcome).to.include({ kind: 'denied', code: 'TOOL_NOT_ALLOWED' })
    expect(late.settlements[0]).to.include({ sent: 'yes' })
  })

  it('denies the call instead of escalating it, as an approval is no longer possible', async () => {
    const { outcome, call } = await run(reporting(found), { mode: 'enforce', effectOf: () => 'escalate' })
    expect(outcome).to.include({ kind: 'denied' })
    expect(call.judgedFindings()).to.deep.equal([{ ...found, effect: 'deny' }])
  })

  it('has no effect in observe mode', async () => {
    const { outcome, executed } = await run(reporting(found), {
      mode: 'observe',
      effectOf: () => 'would_deny',
    })
    expect(outcome).to.equal(served)
    expect(executed).to.equal(1)
  })

  it('aborts the call if it denies', async () => {
    const denied = await run(reportingLate(found))
    expect(denied.call.abortState.reason).to.include({ code: 'TOOL_NOT_ALLOWED' })
    const observed = await run(reportingLate(found), { mode: 'observe', effectOf: () => 'would_deny' })
    expect(observed.call.abortState.aborted).to.equal(false)
  })

  it('ends the stream of a call that has settled', async () => {
    const { outcome } = await run(async (call, next) => {
      await next()
      const body = async function* () {
        const instead = () => new Uint8Array(1)
        yield { bytes: new Uint8Array(2), response: { digest: null, instead } }
        call.addFinding(found)
        yield { bytes: new Uint8Array(3) }
      }
      return { ...served, body: { [Symbol.asyncIterator]: body } }
    })
    const sizes: number[] = []
    const read = async () => {
      if (outcome.kind !== 'completed' || !isStream(outcome.body)) throw new Error('no stream')
      for await (const { bytes } of outcome.body) sizes.push(bytes.byteLength)
    }
    expect(await read().catch((error: unknown) => error)).to.include({ code: 'TOOL_NOT_ALLOWED' })
    expect(sizes).to.deep.equal([2])
  })

  it('is not kept once the call has settled', async () => {
    const { call } = await run((_call, next) => next())
    call.addFinding(found)
    expect(call.findings).to.deep.equal([])
  })
})

describe('a stage that ignores the abort', () => {
  it('is left behind: the call ends with the reason of the abort, and is not sent afterwards', async () => {
    const clock = sinon.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    try {
      let late: unknown
      const { happened: waits, resolve: resume } = signalled()
      const running = run(async (call, next) => {
        queueMicrotask(() => call.abort('CANCELLED', 'stop'))
        await waits
        late = await next()
        return late
      })
      await clock.tickAsync(60_000)
      const { outcome, executed, call } = await running
      expect(outcome).to.include({ kind: 'failed', code: 'CANCELLED' })
      resume()
      await clock.tickAsync(1)
      expect(late).to.include({ kind: 'failed', code: 'INTERNAL' })
      expect({ executed, sent: call.sent }).to.deep.equal({ executed: 0, sent: 'no' })
    } finally {
      clock.restore()
    }
  })
})

describe('a stage that denies after next()', () => {
  it('does not change that the call was sent, and gets no hold released', async () => {
    let released = 0
    const { settlements, outcome } = await run(async (call, next) => {
      call.hold({ commit: () => undefined, release: () => void released++ })
      await next()
      return { kind: 'denied', sent: 'no', code: 'RATE_LIMITED', message: 'no' }
    })
    expect(outcome).to.include({ kind: 'denied', code: 'RATE_LIMITED' })
    expect(settlements[0]).to.include({ sent: 'yes', error: 'RATE_LIMITED' })
    expect(released).to.equal(0)
  })
})

describe('a stage that does not wait for next()', () => {
  it('aborts the call that it passed on, which ends afterwards and is recorded as sent if it was', async () => {
    const { outcome, settlements, executed, call } = await run((_call, next) => {
      void next()
      return { kind: 'denied', code: 'RATE_LIMITED', message: 'no' }
    })
    expect(outcome).to.include({ kind: 'denied', code: 'RATE_LIMITED' })
    expect(call.abortState.aborted).to.equal(true)
    expect(settlements[0]?.sent).to.equal(executed === 0 ? 'no' : 'yes')
  })
})

describe('a part of a stage that never ends', () => {
  const never = new Promise<never>(() => undefined)
  const hold = { commit: (): undefined => undefined, release: () => undefined }
  const leaves = (control: CallControl): void => control.disconnect()
  const drains = (call: CallControl): void => call.abort('DRAINING', 'The gateway is shutting down.')
  interface Row {
    readonly handle: (call: Call, next: Next) => unknown
    readonly begun?: (control: CallControl) => void
    readonly settled: Partial<Settlement>
  }
  const rows: Readonly<Record<string, Row>> = {
    'handle(), if the caller leaves': {
      handle: () => ({ then: () => undefined }),
      begun: leaves,
      settled: { sent: 'no', error: 'CANCELLED' },
    },
    'handle(), if the gateway drains': {
      handle: () => ({ then: () => undefined }),
      begun: drains,
      settled: { sent: 'no', error: 'DRAINING' },
    },
    'handle() after next(), if the caller leaves': {
      handle: async (_call, next) => {
        await next()
        return never
      },
      begun: leaves,
      settled: { sent: 'yes', error: 'CANCELLED' },
    },
    'the commit of a hold, if the caller leaves': {
      handle: (call, next) => {
        call.hold({ ...hold, commit: () => never })
        return next()
      },
      begun: leaves,
      settled: { sent: 'no', error: 'CANCELLED' },
    },
    'the release of a hold': {
      handle: (call) => {
        call.hold({ ...hold, release: () => never })
        return denied('RATE_LIMITED', 'later')
      },
      settled: { sent: 'no', error: 'STORE_UNAVAILABLE' },
    },
    'a settle handler': {
      handle: (call, next) => {
        call.onSettle(() => never)
        return next()
      },
      settled: { sent: 'yes', error: 'INTERNAL' },
    },
  }
  for (const [part, { handle, begun, settled }] of Object.entries(rows)) {
    it(`does not keep the call from its record: ${part}`, async () => {
      const clock = sinon.useFakeTimers({
        toFake: ['setTimeout', 'clearTimeout', 'setInterval', 'clearInterval'],
      })
      try {
        const running = run(handle, denying, begun)
        await clock.tickAsync(60_000)
        const { outcome, settlements } = await running
        expect(settlements).to.have.lengthOf(1)
        expect(settlements[0]).to.include(settled)
        expect(outcome).to.include({ kind: settled.error === 'DRAINING' ? 'denied' : 'failed' })
      } finally {
        clock.restore()
      }
    })
  }

  it('is ended after the caller has left, unlike a wait for a person or for the upstream', async () => {
    const clock = sinon.useFakeTimers({
      toFake: ['setTimeout', 'clearTimeout', 'setInterval', 'clearInterval'],
    })
    try {
      const waiting = async (call: Call, next: Next) => {
        const resume = call.pauseTimeout()
        await new Promise((resolve) => setTimeout(resolve, 30_000))
        resume()
        return next()
      }
      const running = run(waiting, denying, leaves)
      await clock.tickAsync(60_000)
      expect((await running).settlements[0]).to.include({ sent: 'yes', error: null })
    } finally {
      clock.restore()
    }
  })
})
