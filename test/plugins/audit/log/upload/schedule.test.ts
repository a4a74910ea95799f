import { type RoundResult, UploadSchedule } from '@svc/plugin-audit/internal/log/upload/schedule'
import { expect } from 'chai'
import sinon from 'sinon'

const GOOD: RoundResult = { retryAfterMs: undefined, refusals: 'none' }
const FAILED: RoundResult = { ...GOOD, retryAfterMs: 0 }
const REFUSED: RoundResult = { ...GOOD, refusals: 'refused' }
const SKIPPED: RoundResult = { ...GOOD, refusals: 'skipped' }

describe('the schedule of the upload', () => {
  let time: sinon.SinonFakeTimers
  let log: [event: string, ms: number][]
  let results: RoundResult[]
  let hasNewBytes: boolean
  let isBlocked: boolean
  /** Ends the round that runs; undefined if rounds end at once. */
  let end: (() => void) | undefined

  beforeEach(() => {
    time = sinon.useFakeTimers()
    log = []
    results = []
    hasNewBytes = false
    isBlocked = false
    end = undefined
  })
  afterEach(() => time.restore())

  const schedule = (intervalMs: number) =>
    new UploadSchedule(
      {
        round(isFull) {
          log.push([isFull ? 'full' : 'round', performance.now()])
          const result = results.shift() ?? GOOD
          if (end === undefined) return Promise.resolve(result)
          return new Promise((resolve) => {
            end = () => resolve(result)
          })
        },
        hasNewBytes: () => hasNewBytes,
        isBlocked: () => isBlocked,
        forgetRefusals() {
          isBlocked = false
          log.push(['forget', performance.now()])
        },
      },
      { intervalMs, refusalMs: 1_000, random: () => 0.5 },
    )

  async function timesOf(intervalMs: number, first: readonly RoundResult[], ms: number) {
    results.push(...first)
    const one = schedule(intervalMs)
    one.start()
    await time.tickAsync(ms)
    one.stop()
    await time.tickAsync(ms)
    return log
  }

  const rounds = (...at: number[]) => at.map((ms) => ['round', ms])

  for (const [title, intervalMs, first, ms, expected] of [
    ['begins a round at its start and at every interval', 100, [], 350, rounds(0, 100, 200, 300)],
    [
      'waits longer after each failure, even if an interval passes',
      200,
      [FAILED, FAILED, FAILED],
      2_800,
      // 375, then 750, then 1,500 ms; the intervals between them are not used.
      rounds(0, 375, 1_125, 2_625, 2_800),
    ],
    [
      'waits as long as the other side requests',
      10_000,
      [{ ...GOOD, retryAfterMs: 5_000 }],
      6_000,
      rounds(0, 5_000),
    ],
    [
      'repeats refused uploads with increasing delays, and continues with the rest at every interval',
      600,
      [REFUSED, SKIPPED, REFUSED],
      2_500,
      [
        ...rounds(0, 600),
        ['forget', 750],
        ...rounds(750, 1_200, 1_800),
        ['forget', 2_250],
        ...rounds(2_250, 2_400),
      ],
    ],
  ] as const) {
    it(title, async () => {
      expect(await timesOf(intervalMs, first, ms)).to.deep.equal(expected)
    })
  }

  it('begins no round while nothing can be uploaded, until refusals are tried again', async () => {
    results.push(REFUSED)
    const one = schedule(100)
    one.start()
    isBlocked = true
    await time.tickAsync(750)
    one.stop()
    expect(log).to.deep.equal([...rounds(0), ['forget', 750], ...rounds(750)])
  })

  it('runs one round at a time, and another if bytes came in between', async () => {
    end = () => undefined
    const one = schedule(10_000)
    one.start()
    one.wake()
    const flushed = one.flush()
    await time.tickAsync(10)
    expect(log).to.deep.equal(rounds(0))
    hasNewBytes = true
    for (let ended = 0; ended < 3; ended++) {
      end()
      await time.tickAsync(10)
    }
    one.stop()
    await flushed
    expect(log.map(([event]) => event)).to.deep.equal(['round', 'round', 'full'])
  })
})
