import { type Call, failed, isRefusal, type Outcome, Refusal, responseTimeLeft, verdict } from '@svc/core'
import type { Dispatch } from '@svc/core/pipeline'
import { securityPlugin, timer } from '@svc/plugin-security'
import { expect } from 'chai'
import sinon from 'sinon'
import { controlOf, makeCall } from '../../support/call.js'
import { StageRig, send, served } from '../../support/stage-rig.js'
import { bytesOf, responseOf, run as runIn, type Sections, streamOf } from './rig.js'

const security = { limits: { max_duration_ms: 1000 } }

/** Time that passes for the stage alone: on a fake of the process's timers, what other tests left behind has timers too. */
class StageTime {
  readonly pending = new Set<{ readonly at: number; readonly expire: () => void }>()
  #now = 0

  now = () => this.#now

  after = (ms: number, expire: () => void) => {
    const timer = { at: this.#now + ms, expire }
    this.pending.add(timer)
    return () => void this.pending.delete(timer)
  }

  pass(ms: number): void {
    this.#now += ms
    for (const timer of this.pending) {
      if (timer.at > this.#now) continue
      this.pending.delete(timer)
      timer.expire()
    }
  }
}

describe('security: duration', () => {
  let time: StageTime
  let rig: StageRig

  beforeEach(() => {
    time = new StageTime()
    rig = new StageRig()
    rig.bind(timer, time)
  })

  const run = (sections: Sections, call: Call, upstream?: Dispatch) =>
    runIn({ ...sections, rig }, call, upstream)

  /** An upstream that responds after `ms` milliseconds, or fails when the call is aborted. */
  function upstreamTaking(ms: number, response: Outcome = served) {
    return async (call: Call): Promise<Outcome> => {
      await controlOf(call).commitHolds()
      time.pass(ms)
      const reason: unknown = call.signal.reason
      if (!isRefusal(reason)) return response
      return failed(reason.code, reason.message)
    }
  }

  it('allows a call within the limit and clears its timer', async () => {
    const call = makeCall()
    expect((await run({ security }, call, upstreamTaking(999))).kind).to.equal('completed')
    expect(time.pending.size).to.equal(0)
    expect(call.findings).to.deep.equal([])
  })

  it('aborts a call over the limit', async () => {
    const call = makeCall()
    const outcome = await run({ security }, call, upstreamTaking(1000))
    expect(outcome).to.deep.include({
      kind: 'denied',
      code: 'DURATION_EXCEEDED',
      denial: { level: 'gateway', type: 'security', reason: 'duration_too_long' },
    })
    expect(call.findings).to.deep.equal([
      {
        reason: 'duration_too_long',
        stage: 'security',
        level: 'gateway',
        detail: 'the call took longer than 1000 ms (security.limits.max_duration_ms)',
        isLate: true,
      },
    ])
  })

  it('does not count the wait for approval, and restarts the timer after it', async () => {
    for (const [ms, kind] of [
      [999, 'completed'],
      [1000, 'denied'],
    ] as const) {
      const call = makeCall()
      const outcome = await run({ security }, call, async () => {
        time.pass(900)
        const done = call.pauseTimeout()
        time.pass(60_000)
        done()
        return upstreamTaking(ms)(call)
      })
      expect(outcome.kind).to.equal(kind)
      expect(time.pending.size).to.equal(0)
    }
  })

  for (const [when, enforcement] of [
    ['in observe mode', { mode: 'observe' }],
    ['if deny_on does not name it', { deny_on: [] }],
  ] as const) {
    it(`only records it ${when}`, async () => {
      const call = makeCall()
      expect((await run({ security, enforcement }, call, upstreamTaking(5000))).kind).to.equal('completed')
      expect(call.signal.aborted).to.equal(false)
      expect(call.findings.map(({ reason }) => reason)).to.deep.equal(['duration_too_long'])
    })
  }

  it('refuses a response that arrives after the call was aborted', async () => {
    const late = async (): Promise<Outcome> => {
      time.pass(1000)
      return responseOf(new Uint8Array(5))
    }
    expect(await run({ security }, makeCall(), late)).to.deep.include({
      kind: 'denied',
      code: 'DURATION_EXCEEDED',
      denial: { level: 'gateway', type: 'security', reason: 'duration_too_long' },
    })
  })

  it('leaves the decision to enforcement when the limit is exceeded before that stage', async () => {
    const slow = {
      name: 'slow',
      stage: {
        handle: async (_call: Call, next: () => Promise<Outcome>) => {
          time.pass(1000)
          return next()
        },
      },
    }
    const upstream = sinon.fake.resolves(served)
    const denied = await run({ security, between: slow }, makeCall(), upstream)
    expect(denied).to.include({ kind: 'denied', code: 'DURATION_EXCEEDED' })
    expect(upstream.called).to.equal(false)
    const call = makeCall()
    const enforcement = { mode: 'observe' }
    expect((await run({ security, enforcement, between: slow }, call, upstream)).kind).to.equal('completed')
    expect(call.findings).to.have.lengthOf(1)
  })

  it('counts until the last byte of a streamed response', async () => {
    const call = makeCall()
    const outcome = await run({ security }, call, async () => responseOf(streamOf(1, 1)))
    expect(time.pending.size).to.equal(1)
    time.pass(1000)
    expect(call.signal.reason).to.be.instanceOf(Refusal).and.to.have.property('code', 'DURATION_EXCEEDED')
    expect(outcome.kind).to.equal('completed')
  })

  it('clears its timer at the end of a streamed response', async () => {
    await bytesOf(await run({ security }, makeCall(), async () => responseOf(streamOf(1, 1))))
    expect(time.pending.size).to.equal(0)
  })

  it('does not limit the stream of an MCP session', async () => {
    const request = { kind: 'protocol', reference: 'mcp://files/' } as const
    const call = makeCall({ request })
    await run({ security }, call, async () => responseOf(streamOf(1)))
    time.pass(5000)
    expect(call.signal.aborted).to.equal(false)
  })

  it('clears the timer of a call that is refused or cannot be parsed', async () => {
    await run({ security: { ...security, allow_versions: { files: [] } } }, makeCall())
    expect(time.pending.size).to.equal(0)
    const unreadable = makeCall({
      read: () => {
        throw new Refusal('BAD_REQUEST', 'not JSON')
      },
    })
    const outcome = await run({ security }, unreadable)
    expect(outcome).to.include({ kind: 'denied', code: 'BAD_REQUEST' })
    expect(time.pending.size).to.equal(0)
  })

  it('uses the bound timer', async () => {
    const after = sinon.fake.returns(() => undefined)
    const rig = new StageRig()
    rig.bind(timer, { after, now: () => 0 })
    await send(rig.create(securityPlugin, security))
    expect(after.calledOnce).to.equal(true)
    expect(after.firstCall.args[0]).to.equal(1000)
  })

  for (const [what, effect, expected] of [
    ['says how much time the response has left, if a late one is denied', 'deny', 700],
    ['says nothing of it, if a late one passes', 'reported', undefined],
  ] as const) {
    it(what, async () => {
      let now = 5_000
      const rig = new StageRig()
      rig.bind(timer, { after: () => () => undefined, now: () => now })
      const call = makeCall()
      await rig.create(securityPlugin, security).handle(call, async () => served)
      call.set(verdict, { mode: 'enforce', effectOf: () => effect })
      now += 300
      expect(call.need(responseTimeLeft)()).to.equal(expected)
    })
  }
})
