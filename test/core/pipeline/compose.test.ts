import { denied, type Outcome, Refusal, type Stage } from '@svc/core'
import { compose, type Dispatch } from '@svc/core/pipeline'
import { expect } from 'chai'
import { controlOf, makeCall } from '../../support/call.js'
import { signalled } from '../../support/signalled.js'
import { served } from '../../support/stage-rig.js'

function stage(handle: Stage['handle']): Stage {
  return { handle }
}

describe('compose', () => {
  it('runs stages from the outermost inward and back', async () => {
    const seen: string[] = []
    const noting = (name: string) => ({
      name,
      stage: stage(async (_call, next) => {
        seen.push(`${name} in`)
        const outcome = await next()
        seen.push(`${name} out`)
        return outcome
      }),
    })
    const run = compose([noting('a'), noting('b')], async () => {
      seen.push('sent')
      return served
    })
    expect(await run(controlOf(makeCall()))).to.equal(served)
    expect(seen).to.deep.equal(['a in', 'b in', 'sent', 'b out', 'a out'])
  })

  it('is the dispatcher alone when there are no stages', async () => {
    expect(await compose([], async () => served)(controlOf(makeCall()))).to.equal(served)
  })

  it('does not run the stages inside one that refuses', async () => {
    const refusal = denied('RATE_LIMITED', 'slow down')
    const dispatch: Dispatch = () => Promise.reject(new Error('must not be reached'))
    const run = compose([{ name: 'a', stage: stage(async () => refusal) }], dispatch)
    expect(await run(controlOf(makeCall()))).to.equal(refusal)
  })

  it('turns an error into INTERNAL with the stage in its cause and no details for the caller', async () => {
    const run = compose(
      [{ name: 'leaky', stage: stage(() => Promise.reject(new Error('password is x'))) }],
      async () => served,
    )
    const outcome = await run(controlOf(makeCall()))
    expect(outcome).to.include({ kind: 'failed', code: 'INTERNAL' })
    if (outcome.kind !== 'failed') return expect.fail('not failed')
    expect(outcome.message).not.to.contain('password')
    expect(outcome.cause).to.have.property('message', 'stage leaky failed')
  })

  it('turns a synchronous error into the same', async () => {
    const run = compose(
      [
        {
          name: 'a',
          stage: stage(() => {
            throw new Error('at once')
          }),
        },
      ],
      async () => served,
    )
    expect(await run(controlOf(makeCall()))).to.include({ kind: 'failed', code: 'INTERNAL' })
  })

  it('gives outer stages the outcome of an inner error as a value', async () => {
    let seen: Outcome | undefined
    const outer = stage(async (_call, next) => {
      seen = await next()
      return seen
    })
    const inner = stage(() => Promise.reject(new Error('boom')))
    await compose(
      [
        { name: 'outer', stage: outer },
        { name: 'inner', stage: inner },
      ],
      async () => served,
    )(controlOf(makeCall()))
    expect(seen).to.include({ kind: 'failed', code: 'INTERNAL' })
  })

  it('makes a thrown Refusal an outcome with its own code', async () => {
    const run = compose([], () => Promise.reject(new Refusal('BAD_REQUEST', 'not JSON')))
    expect(await run(controlOf(makeCall()))).to.deep.equal(denied('BAD_REQUEST', 'not JSON'))
  })

  it('treats an unreachable upstream as a failure, not as a denial', async () => {
    const run = compose([], () => Promise.reject(new Refusal('UPSTREAM_UNREACHABLE', 'down')))
    expect(await run(controlOf(makeCall()))).to.include({ kind: 'failed', code: 'UPSTREAM_UNREACHABLE' })
  })

  it('reports an unknown outcome for an error after the send', async () => {
    const call = makeCall()
    const run = compose([], async () => {
      await controlOf(call).commitHolds()
      throw new Error('boom')
    })
    expect(await run(controlOf(call))).to.include({ kind: 'failed' })
    expect(call.sent).to.equal('unknown')
  })

  it('aborts a call whose streamed response a stage has replaced, and no other', async () => {
    async function* pieces() {
      yield { bytes: Buffer.from('a') }
    }
    const streamed = { ...served, body: pieces() } as Outcome
    const refusal = denied('INTERNAL', 'no')
    for (const [dispatched, returned, isAborted] of [
      [streamed, refusal, true],
      [streamed, streamed, false],
      [served, refusal, false],
    ] as const) {
      const call = controlOf(makeCall())
      const replacing = stage(async (_call, next) => {
        await next()
        return returned
      })
      await compose([{ name: 'a', stage: replacing }], async () => dispatched)(call)
      expect(call.abortState.aborted).to.equal(isAborted)
    }
  })

  it('returns without a promise if no stage and no dispatcher needs one', () => {
    const passing = (name: string) => ({ name, stage: stage((_call, next) => next()) })
    expect(compose([passing('a'), passing('b')], () => served)(controlOf(makeCall()))).to.equal(served)
  })

  it('returns the promise of the dispatcher itself if stages only pass it on', () => {
    let inner: unknown
    const seen = stage((_call, next) => {
      inner = next()
      return inner as Promise<Outcome>
    })
    const run = compose(
      [
        { name: 'outer', stage: stage((_call, next) => next()) },
        { name: 'seen', stage: seen },
      ],
      async () => served,
    )
    expect(run(controlOf(makeCall()))).to.equal(inner)
  })

  it('refuses a second next() of a stage that needs no promise', () => {
    let sends = 0
    const twice = stage((_call, next) => {
      next()
      return next()
    })
    const outcome = compose([{ name: 'twice', stage: twice }], () => {
      sends++
      return served
    })(controlOf(makeCall()))
    expect(outcome).to.include({ kind: 'failed', code: 'INTERNAL' })
    expect(sends).to.equal(1)
  })

  it('refuses a second next() and sends once', async () => {
    let sends = 0
    const twice = stage(async (_call, next) => {
      await next()
      return next()
    })
    const run = compose([{ name: 'twice', stage: twice }], async () => {
      sends++
      return served
    })
    const outcome = await run(controlOf(makeCall()))
    expect(outcome).to.include({ kind: 'failed', code: 'INTERNAL' })
    expect(sends).to.equal(1)
  })

  const late: Readonly<Record<string, (end: Promise<void>) => Stage['handle']>> = {
    'at once': (end) => (_call, next) => {
      void end.then(next)
      return denied('RATE_LIMITED', 'slow down')
    },
    'after it has waited': (end) => async (_call, next) => {
      await Promise.resolve()
      void end.then(next)
      return denied('RATE_LIMITED', 'slow down')
    },
    'by an error': (end) => (_call, next) => {
      void end.then(next)
      throw new Error('boom')
    },
    'by a rejection': (end) => async (_call, next) => {
      void end.then(next)
      throw new Error('boom')
    },
  }
  for (const [how, handle] of Object.entries(late)) {
    it(`does not run the stages inside one that has ended ${how} and calls next() afterwards`, async () => {
      const reached: string[] = []
      const { happened: end, resolve } = signalled()
      const inner = stage((_call, next) => {
        reached.push('inner')
        return next()
      })
      const run = compose(
        [
          { name: 'late', stage: stage(handle(end)) },
          { name: 'inner', stage: inner },
        ],
        () => {
          reached.push('sent')
          return served
        },
      )
      expect((await run(controlOf(makeCall()))).kind).to.be.oneOf(['denied', 'failed'])
      resolve()
      await end
      await Promise.resolve()
      expect(reached).to.deep.equal([])
    })
  }
})
