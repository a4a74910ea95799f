// The wall clock of the host jumps; the limits must hold as if it had not.
import type { QuotaAdapter } from '@svc/core'
import { MemoryQuotaAdapter } from '@svc/plugin-quotas'
import { expect } from 'chai'
import fc from 'fast-check'
import { propertyRuns } from '../../../support/property-runs.js'
import { TemporaryDir } from '../../../support/temporary-dir.js'
import { lmdbAdapter } from './adapters.js'

const SECOND = 1_000
const HOUR = 3_600_000
const DAY = 24 * HOUR
const NOON = Date.UTC(2026, 5, 15, 12)
const LIMIT = 4
const RATE = 0.5
const BURST = 3

/** A host with one store; processes come and go, if it is on disk. */
class Host {
  /** Milliseconds that the wall clock is wrong by. */
  wrongBy = 0
  /** Milliseconds since the start. */
  passed = 0
  adapter: QuotaAdapter
  readonly #dir: string | undefined

  constructor(dir?: string) {
    this.#dir = dir
    this.adapter = this.open()
  }

  get wall(): number {
    return NOON + this.passed + this.wrongBy
  }

  open(): QuotaAdapter {
    const clock = { now: () => this.wall, monotonic: () => 1_000 + this.passed }
    return this.#dir === undefined ? new MemoryQuotaAdapter(clock) : lmdbAdapter(this.#dir, clock)
  }

  async restart(): Promise<void> {
    if (this.#dir === undefined) return
    await this.adapter.close?.()
    this.adapter = this.open()
  }
}

const jumps = [2 * SECOND, HOUR, 13 * HOUR, DAY, 3 * DAY, 40 * DAY, 3_650 * DAY]
const tool = fc.constantFrom('a', 'b')
const step = fc.oneof(
  { weight: 6, arbitrary: fc.record({ kind: fc.constant('count' as const), tool }) },
  { weight: 6, arbitrary: fc.record({ kind: fc.constant('take' as const), tool }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('refund' as const), tool }) },
  {
    weight: 3,
    arbitrary: fc.record({
      kind: fc.constant('pass' as const),
      ms: fc.constantFrom(100, SECOND, 2 * SECOND, 7 * HOUR, DAY),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constant('jump' as const),
      ms: fc.constantFrom(...jumps, ...jumps.map((ms) => -ms)),
    }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('correct' as const) }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('restart' as const) }) },
)

describe('limits in LMDB and a wall clock that jumps', () => {
  const title = 'keep the count of each day that has begun, and refill buckets by the time that passes'
  it(title, () => keepCounts(true))

  it(`${title}, in memory too`, () => keepCounts(false))

  async function keepCounts(isOnDisk: boolean) {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 60 }), async (steps) => {
        using dir = new TemporaryDir()
        const host = new Host(isOnDisk ? dir.path : undefined)
        /** Calls that were counted, by day and tool. */
        const counts = new Map<string, number>()
        const buckets = new Map<string, { tokens: number; at: number }>()
        const last = new Map<string, number>()
        for (const one of steps) {
          if (one.kind === 'pass') host.passed += one.ms
          else if (one.kind === 'jump') host.wrongBy += one.ms
          else if (one.kind === 'correct') host.wrongBy = 0
          else if (one.kind === 'restart') await host.restart()
          else if (one.kind === 'count') {
            const { count, resetAt } = await host.adapter.incrDaily('t', one.tool, LIMIT)
            const key = `${Number(resetAt)} ${one.tool}`
            const counted = counts.get(key) ?? 0
            expect(count, 'the day goes on').to.equal(counted + 1)
            if (count <= LIMIT) counts.set(key, count)
            if (count <= LIMIT) last.set(one.tool, Number(resetAt))
            expect(resetAt, 'the day is not over').to.be.above(host.wall)
          } else if (one.kind === 'refund') {
            const resetAt = last.get(one.tool)
            last.delete(one.tool)
            if (resetAt === undefined) continue
            await host.adapter.refundDaily?.('t', one.tool, resetAt - 1)
            const key = `${Number(resetAt)} ${one.tool}`
            counts.set(key, (counts.get(key) ?? 0) - 1)
          } else {
            const { tokens, at } = buckets.get(one.tool) ?? { tokens: BURST, at: host.passed }
            const available = Math.min(BURST, tokens + ((host.passed - at) * RATE) / 1_000)
            const response = await host.adapter.takeToken('t', one.tool, RATE, BURST)
            const isTaken = available > 1 - 1e-6
            expect(response.tokens >= 0, `${available} tokens`).to.equal(isTaken)
            if (isTaken) buckets.set(one.tool, { tokens: available - 1, at: host.passed })
          }
        }
        await host.adapter.close?.()
      }),
      { seed: 25_2, numRuns: propertyRuns(40) },
    )
  }

  it('begin a new day after a jump of days ahead, with a warning, and go on with the old one when it is corrected', async () => {
    using dir = new TemporaryDir()
    const host = new Host(dir.path)
    const count = async () => (await host.adapter.incrDaily('t', 'a', 10)).count
    expect([await count(), await count()]).to.deep.equal([1, 2])
    expect(host.adapter.warning?.()).to.equal(undefined)
    host.wrongBy = 3_650 * DAY
    expect(await count()).to.equal(1)
    expect(host.adapter.warning?.()).to.include(
      'was set ahead by 3650 days, to 2036-06-12T12:00:00.000Z: a new day',
    )
    host.passed += HOUR
    host.wrongBy = 0
    expect(await count()).to.equal(3)
    host.passed += DAY + HOUR
    await count()
    expect(host.adapter.warning?.()).to.equal(undefined)
    await host.adapter.close?.()
  })

  it('count for a day that has begun while the clock is set back by more than a day, with a warning', async () => {
    using dir = new TemporaryDir()
    const host = new Host(dir.path)
    await host.adapter.incrDaily('t', 'a', 10)
    host.passed += 5 * DAY
    await host.adapter.incrDaily('t', 'a', 10)
    host.wrongBy = -4 * DAY
    const { resetAt } = await host.adapter.incrDaily('t', 'a', 10)
    expect(new Date(resetAt).toISOString()).to.equal('2026-06-20T00:00:00.000Z')
    expect(host.adapter.warning?.()).to.include('was set back: calls count for 2026-06-19')
    await host.adapter.close?.()
  })

  it('refill by what the wall clock shows after the host has booted', async () => {
    using dir = new TemporaryDir()
    let wall = NOON
    const open = (steady: () => number) => lmdbAdapter(dir.path, { now: () => wall, monotonic: steady })
    const before = open(() => 1e9 + wall - NOON)
    expect((await before.takeToken('t', 'a', 1, 1)).tokens).to.equal(0)
    await before.close()
    const after = open(() => wall - NOON)
    expect((await after.takeToken('t', 'a', 1, 1)).tokens).to.be.below(0)
    wall += SECOND
    expect((await after.takeToken('t', 'a', 1, 1)).tokens).to.equal(0)
    await after.close()
  })
})
