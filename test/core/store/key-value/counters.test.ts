// What the model of counters does not show: room, expiry, and what is refused.
import { type CounterLimit, isPending, type MaybePromise, type TakeOptions } from '@svc/core'
import { MemoryKeyValueStore } from '@svc/core/store'
import { expect } from 'chai'
import { HostClock } from './deployments.js'

const DAY = 86_400_000
const space = { name: 'counted', maxOwned: 2 }

describe('counters', () => {
  let clock: HostClock
  let store: MemoryKeyValueStore

  beforeEach(() => {
    clock = new HostClock()
    store = new MemoryKeyValueStore({ clock })
  })

  const rate = (key: string): CounterLimit => ({ key, max: 1, perSecond: 1 })
  const day = (key: string): CounterLimit => ({ key, max: 5, window: { ms: DAY } })
  const take = (limits: readonly CounterLimit[], options?: TakeOptions, counted = space) =>
    atOnce(store.take(counted, limits, options))

  it('refuse new keys when their space is full, and count the others and those of other spaces', () => {
    take([day('a'), rate('b')])
    expect(() => take([day('c')])).to.throw(/^the store has 2 counters of counted and takes no more/)
    expect(() => take([day('a'), rate('c')])).to.throw(/takes no more/)
    expect(take([day('a')]).uses[0]?.left).to.equal(3)
    expect(take([day('c')], {}, { ...space, name: 'other' }).isTaken).to.equal(true)
  })

  it('leave room for others when buckets are full again, windows are over, and counts are given back', () => {
    take([rate('a'), rate('b')])
    clock.passed += 10_000
    const { at } = take([day('c'), day('d')])
    store.settle(space, [{ ...day('d'), amount: -1 }], { at })
    expect(take([day('e')]).isTaken).to.equal(true)
    clock.passed += 3 * DAY
    expect(take([day('f'), day('g')]).isTaken).to.equal(true)
  })

  it('end a hold whose holder does not come back', () => {
    const flight: CounterLimit = { key: 'flight', max: 1 }
    const held = (id: string) => take([flight], { hold: { id, ms: 60_000 } })
    const first = held('h1')
    expect(held('h2')).to.deep.include({ isTaken: false })
    expect(held('h2').uses[0]?.resetAt).to.equal(first.at + 60_000)
    clock.passed += 60_000
    expect(held('h2').isTaken).to.equal(true)
    expect(store.settle(space, [{ key: 'flight', amount: 0 }], { at: first.at, hold: 'h1' })).to.equal(false)
  })

  it('reserve an amount, and settle another one in the window in which it was reserved', () => {
    const spent: CounterLimit = { key: 'spent', max: 50_000, window: { ms: DAY } }
    const { at } = take([{ ...spent, amount: 30_000 }], { hold: { id: 'call-1', ms: 60_000 } })
    expect(take([{ ...spent, amount: 30_000 }]).isTaken).to.equal(false)
    expect(store.settle(space, [{ ...spent, amount: 12_345 }], { at, hold: 'call-1' })).to.equal(true)
    expect(take([{ ...spent, amount: 30_000 }]).uses[0]?.left).to.equal(7_655)
  })

  it('count calendar months by the start and length of the one that a client knows', () => {
    const may = { from: Date.UTC(2026, 4, 1), ms: 31 * DAY }
    const june = { from: Date.UTC(2026, 5, 1), ms: 30 * DAY }
    const limit = { key: 'month', max: 2 }
    // A gateway whose clock is a little behind still has May at the beginning of June.
    for (const window of [may, june])
      expect(take([{ ...limit, window }], { at: june.from + 1 }).isTaken).to.equal(true)
    expect(take([{ ...limit, window: june }], { at: june.from + 1 }).isTaken).to.equal(false)
  })

  const wrong: Readonly<Record<string, [CounterLimit, TakeOptions?]>> = {
    'a negative limit': [{ ...day('a'), max: -1 }],
    'a limit that is no number': [{ ...day('a'), max: Number.NaN }],
    'a fraction of an amount': [{ ...day('a'), amount: 0.5 }],
    'a negative amount': [{ ...day('a'), amount: -1 }],
    'a rate of 0': [{ ...rate('a'), perSecond: 0 }],
    'an endless bucket': [{ ...rate('a'), max: Number.POSITIVE_INFINITY }],
    'a window of no time': [{ ...day('a'), window: { ms: 0 } }],
    'a key with a space': [day('a b')],
    'a limit without a window that nothing ends': [{ key: 'a', max: 1 }],
    'a hold with a colon': [day('a'), { hold: { id: 'a:b', ms: 1 } }],
    'a hold of no time': [day('a'), { hold: { id: 'a', ms: 0 } }],
  }
  for (const [what, [limit, options]] of Object.entries(wrong)) {
    it(`refuse ${what}, and count nothing`, () => {
      expect(() => take([rate('b'), limit], options)).to.throw(RangeError)
      expect(take([rate('b')]).isTaken).to.equal(true)
    })
  }
})

/** The store in memory makes no promises, which cost more than the count. */
function atOnce<T>(value: MaybePromise<T>): T {
  if (isPending(value)) throw new TypeError('a promise')
  return value
}
