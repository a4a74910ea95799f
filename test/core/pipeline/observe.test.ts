import type { Completed, Stage } from '@svc/core'
import { Pipeline } from '@svc/core/pipeline'
import { expect } from 'chai'
import sinon from 'sinon'
import { controlOf, makeCall } from '../../support/call.js'

const served: Completed = { kind: 'completed', status: 200, headers: {}, body: new Uint8Array() }

describe('an observer of calls', () => {
  let now = 0
  let clock: sinon.SinonStub
  beforeEach(() => {
    now = 0
    clock = sinon.stub(performance, 'now').callsFake(() => now)
  })
  afterEach(() => clock.restore())

  /** Resolves in a later turn, after so many milliseconds of the stubbed clock. */
  const pass = (ms: number) =>
    Promise.resolve().then(() => {
      now += ms
    })

  const stages: Readonly<Record<string, readonly [Stage['handle'], readonly (readonly [string, number])[]]>> =
    {
      'waits before the rest': [
        async (_call, next) => {
          await pass(5)
          return next()
        },
        [
          ['probe', 5],
          ['upstream', 20],
        ],
      ],
      'waits after the rest': [
        async (_call, next) => {
          const outcome = await next()
          await pass(7)
          return outcome
        },
        [
          ['upstream', 20],
          ['probe', 7],
        ],
      ],
      'waits on both sides': [
        async (_call, next) => {
          await pass(5)
          const outcome = await next()
          await pass(7)
          return outcome
        },
        [
          ['probe', 5],
          ['upstream', 20],
          ['probe', 7],
        ],
      ],
      'passes the call on': [(_call, next) => next(), [['upstream', 20]]],
      'changes the outcome at once': [async (_call, next) => ({ ...(await next()) }), [['upstream', 20]]],
    }
  for (const [title, [handle, expected]] of Object.entries(stages)) {
    it(`sees where a call waits, without the stages inside: one that ${title}`, async () => {
      const waits: (readonly [string, number])[] = []
      const observer = {
        began: () => undefined,
        waited: (_call: unknown, name: string, from: number, to: number) =>
          void waits.push([name, to - from]),
      }
      const dispatch = () => pass(20).then(() => served)
      const stage: Stage = { handle }
      await new Pipeline([{ name: 'probe', stage }], dispatch, observer).run(controlOf(makeCall()))
      expect(waits).to.deep.equal(expected)
    })
  }
})
