// What every quota adapter must do, whatever it keeps its counts in.
import type { QuotaAdapter } from '@svc/core'
import { expect } from 'chai'
import fc from 'fast-check'

const NOON = Date.UTC(2026, 5, 15, 12)
const MIDNIGHT = Date.UTC(2026, 5, 16)
const DAY = 86_400_000

export interface OpenAdapter {
  readonly adapter: QuotaAdapter
  close(): Promise<void>
}

/** `open` gives an adapter without counts each time. `runs` bounds the random trials of an adapter that is slow. */
export function quotaAdapterSuite(name: string, open: () => Promise<OpenAdapter>, runs = 100): void {
  describe(`quota adapter ${name}`, () => {
    let opened: OpenAdapter
    let adapter: QuotaAdapter

    beforeEach(async () => {
      opened = await open()
      adapter = opened.adapter
    })

    afterEach(() => opened.close())

    describe('daily counts', () => {
      it('count up to the limit, then refuse without counting', async () => {
        const counts: number[] = []
        for (let call = 0; call < 4; call++) counts.push((await adapter.incrDaily('t', 'a', 2, NOON)).count)
        expect(counts.slice(0, 2)).to.deep.equal([1, 2])
        expect(counts[2]).to.be.greaterThan(2)
        expect(counts[3]).to.be.greaterThan(2)
        expect((await adapter.incrDaily('t', 'a', 3, NOON)).count).to.equal(3)
      })

      it('allow nothing at a limit of 0', async () => {
        expect((await adapter.incrDaily('t', 'a', 0, NOON)).count).to.be.greaterThan(0)
        expect((await adapter.incrDaily('t', 'a', 1, NOON)).count).to.equal(1)
      })

      it('start at zero at midnight UTC', async () => {
        const last = await adapter.incrDaily('t', 'a', 1, MIDNIGHT - 1)
        const first = await adapter.incrDaily('t', 'a', 1, MIDNIGHT)
        expect(last).to.deep.equal({ count: 1, resetAt: MIDNIGHT })
        expect(first).to.deep.equal({ count: 1, resetAt: MIDNIGHT + DAY })
      })

      it('include the day before midnight for a late call', async () => {
        await adapter.incrDaily('t', 'a', 1, MIDNIGHT - 1)
        await adapter.incrDaily('t', 'a', 1, MIDNIGHT)
        expect((await adapter.incrDaily('t', 'a', 1, MIDNIGHT - 1)).count).to.be.greaterThan(1)
      })

      it('are separate for each pair of tenant and tool', async () => {
        for (const [tenant, tool] of [
          ['t', 'a'],
          ['u', 'a'],
          ['t', 'b'],
          ['ta', ''],
          ['t:a', 'b'],
          ['t', 'a:b'],
          ['t\u0000a', 'b'],
          ['t', 'a\u0000b'],
        ] as const) {
          expect((await adapter.incrDaily(tenant, tool, 5, NOON)).count, `${tenant} ${tool}`).to.equal(1)
        }
      })

      it('are exact for concurrent calls', async () => {
        const responses = await Promise.all(
          Array.from({ length: 200 }, () => adapter.incrDaily('t', 'a', 50, NOON)),
        )
        expect(responses.filter(({ count }) => count <= 50)).to.have.lengthOf(50)
      })

      it('give a call back', async () => {
        await adapter.incrDaily('t', 'a', 1, NOON)
        await adapter.refundDaily?.('t', 'a', NOON)
        expect((await adapter.incrDaily('t', 'a', 1, NOON)).count).to.equal(1)
      })

      it('never fall below zero', async () => {
        await adapter.refundDaily?.('t', 'a', NOON)
        await adapter.incrDaily('t', 'a', 1, NOON)
        expect((await adapter.incrDaily('t', 'a', 1, NOON)).count).to.be.greaterThan(1)
      })

      it('give a call back to the day it was counted in', async () => {
        await adapter.incrDaily('t', 'a', 1, MIDNIGHT - 1)
        await adapter.incrDaily('t', 'a', 1, MIDNIGHT)
        await adapter.refundDaily?.('t', 'a', MIDNIGHT - 1)
        expect((await adapter.incrDaily('t', 'a', 1, MIDNIGHT)).count).to.be.greaterThan(1)
        expect((await adapter.incrDaily('t', 'a', 1, MIDNIGHT - 1)).count).to.equal(1)
      })

      it('never exceed the limit plus refunds, in any order of calls', async () => {
        const step = fc.record({ tool: fc.constantFrom('a', 'b'), refund: fc.boolean(), late: fc.boolean() })
        let run = 0
        await fc.assert(
          fc.asyncProperty(
            fc.array(step, { maxLength: 60 }),
            fc.integer({ min: 0, max: 5 }),
            async (steps, limit) => {
              const tenant = `run-${run++}`
              const used = new Map<string, number>()
              await Promise.all(
                steps.map(async ({ tool, refund, late }) => {
                  const now = late ? MIDNIGHT - 1 : MIDNIGHT
                  const key = `${tool} ${now}`
                  const { count } = await adapter.incrDaily(tenant, tool, limit, now)
                  if (count > limit) return
                  used.set(key, (used.get(key) ?? 0) + 1)
                  expect(used.get(key)).to.be.at.most(limit)
                  if (!refund) return
                  used.set(key, (used.get(key) ?? 0) - 1)
                  await adapter.refundDaily?.(tenant, tool, now)
                }),
              )
              // What is left is exactly what the model says: no call was lost, none counted twice.
              for (const [key, calls] of used) {
                const [tool = '', now] = key.split(' ')
                const { count } = await adapter.incrDaily(tenant, tool, limit, Number(now))
                expect(count > limit).to.equal(calls >= limit)
              }
            },
          ),
          { numRuns: runs },
        )
      })
    })

    describe('token buckets', () => {
      const take = (now: number, rate = 1, burst?: number) => adapter.takeToken('t', 'a', rate, burst, now)

      it('give the burst at once, then refuse', async () => {
        const left = [await take(NOON, 1, 3), await take(NOON, 1, 3), await take(NOON, 1, 3)]
        expect(left.map(({ tokens }) => Math.floor(tokens))).to.deep.equal([2, 1, 0])
        expect((await take(NOON, 1, 3)).tokens).to.be.lessThan(0)
      })

      it('have the rate as the default burst', async () => {
        for (let call = 0; call < 5; call++) expect((await take(NOON, 5)).tokens).to.be.at.least(0)
        expect((await take(NOON, 5)).tokens).to.be.lessThan(0)
      })

      it('hold one token at least', async () => {
        expect((await take(NOON, 0.1)).tokens).to.equal(0)
        expect((await take(NOON, 0.1)).tokens).to.be.lessThan(0)
      })

      it('refill at a fractional rate, to the millisecond', async () => {
        await take(NOON, 0.4, 1)
        expect((await take(NOON + 2499, 0.4, 1)).tokens).to.be.lessThan(0)
        expect((await take(NOON + 2500, 0.4, 1)).tokens).to.be.at.least(0)
      })

      it('keep fractions of tokens between takes', async () => {
        await take(NOON, 1, 2)
        await take(NOON + 500, 1, 2)
        expect((await take(NOON + 999, 1, 2)).tokens).to.be.lessThan(0)
        expect((await take(NOON + 1000, 1, 2)).tokens).to.be.at.least(0)
        expect((await take(NOON + 1001, 1, 2)).tokens).to.be.lessThan(0)
      })

      it('never hold more than the burst', async () => {
        await take(NOON, 1, 2)
        expect(Math.floor((await take(NOON + DAY, 1, 2)).tokens)).to.equal(1)
        await take(NOON + DAY, 1, 2)
        expect((await take(NOON + DAY, 1, 2)).tokens).to.be.lessThan(0)
      })

      it('keep their tokens after a refusal', async () => {
        await take(NOON, 1, 1)
        for (let asks = 1; asks < 1000; asks++) await take(NOON + asks, 1, 1)
        expect((await take(NOON + 1000, 1, 1)).tokens).to.be.at.least(0)
      })

      it('say when a token will be available, and it is then', async () => {
        await take(NOON, 0.3, 1)
        const { tokens, resetAt } = await take(NOON + 100, 0.3, 1)
        expect(tokens).to.be.lessThan(0)
        expect(resetAt).to.equal(NOON + 3334)
        expect((await take(Number(resetAt) - 1, 0.3, 1)).tokens).to.be.lessThan(0)
        expect((await take(Number(resetAt), 0.3, 1)).tokens).to.be.at.least(0)
      })

      it('gain no tokens when the clock goes back', async () => {
        await take(NOON, 1, 1)
        expect((await take(NOON - 60_000, 1, 1)).tokens).to.be.lessThan(0)
        expect((await take(NOON + 999, 1, 1)).tokens).to.be.lessThan(0)
      })

      it('are kept apart by tenant and by tool', async () => {
        await take(NOON, 1, 1)
        expect((await adapter.takeToken('u', 'a', 1, 1, NOON)).tokens).to.equal(0)
        expect((await adapter.takeToken('t', 'b', 1, 1, NOON)).tokens).to.equal(0)
      })

      it('are exact for concurrent calls', async () => {
        const responses = await Promise.all(Array.from({ length: 200 }, () => take(NOON, 1, 20)))
        expect(responses.filter(({ tokens }) => tokens >= 0)).to.have.lengthOf(20)
      })

      it('never give more than burst and rate allow, over any stretch of any random run', async () => {
        let run = 0
        await fc.assert(
          fc.asyncProperty(
            fc.array(fc.integer({ min: 0, max: 3000 }), { minLength: 1, maxLength: 60 }),
            fc.double({ min: 0.05, max: 20, noNaN: true }),
            fc.integer({ min: 1, max: 6 }),
            async (pauses, rate, burst) => {
              const tenant = `run-${run++}`
              const times: number[] = []
              let now = NOON
              for (const pause of pauses) {
                now += pause
                if ((await adapter.takeToken(tenant, 'a', rate, burst, now)).tokens >= 0) times.push(now)
              }
              for (const [i, from] of times.entries()) {
                for (const [j, to] of times.entries()) {
                  if (j < i) continue
                  expect(j - i + 1).to.be.at.most(burst + ((to - from) * rate) / 1000 + 1e-6)
                }
              }
            },
          ),
          { numRuns: runs },
        )
      })
    })

    for (const rate of [0, -1, Number.NaN, Number.POSITIVE_INFINITY]) {
      it(`rejects a rate of ${rate}`, async () => {
        expect(await rejected(adapter.takeToken('t', 'a', rate, 1, NOON))).to.be.instanceOf(Error)
      })
    }
    for (const limit of [-1, Number.NaN]) {
      it(`rejects a daily limit of ${limit}`, async () => {
        expect(await rejected(adapter.incrDaily('t', 'a', limit, NOON))).to.be.instanceOf(Error)
      })
    }
  })
}

async function rejected(promise: Promise<unknown> | undefined): Promise<unknown> {
  try {
    await promise
  } catch (thrown) {
    return thrown
  }
  return undefined
}
