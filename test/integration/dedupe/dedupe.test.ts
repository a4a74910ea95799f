import { randomInt } from 'node:crypto'
import { expect } from 'chai'
import { Fleet } from './fleet.js'
import { mishaps } from './mishaps.js'

describe('several gateways', () => {
  for (const store of ['redis', 'lmdb'] as const) {
    it(`ask the upstream once for 200 duplicates that come at once, with ${store}`, async function () {
      this.timeout(60_000)
      await using fleet = await Fleet.start(3, store, () => 50)
      const answers = await Promise.all(Array.from({ length: 200 }, (_, i) => fleet.call(i % 3, 'one')))
      expect(new Set(answers.map(({ status }) => status))).to.deep.equal(new Set([200]))
      expect(new Set(answers.map(({ body }) => body)).size).to.equal(1)
      expect(answers.filter(({ mark }) => mark === 'first')).to.have.lengthOf(1)
      expect(answers.filter(({ mark }) => mark === 'replay')).to.have.lengthOf(199)
      expect(fleet.upstream.calls).to.have.lengthOf(1)
    })

    // A failure names the seed; `npm run chaos:dedupe` repeats it.
    it(`never ask it twice when one is killed in the middle of a call, with ${store}`, async function () {
      this.timeout(120_000)
      await mishaps('kill', 3, randomInt(2 ** 30), store)
    })

    it(`never ask it twice when one is stopped until its leases are over, with ${store}`, async function () {
      this.timeout(120_000)
      await mishaps('pause', 1, randomInt(2 ** 30), store)
    })
  }

  it('never ask it twice when their Redis is killed in the middle of a call', async function () {
    this.timeout(120_000)
    await mishaps('store', 2, randomInt(2 ** 30), 'redis')
  })
})
