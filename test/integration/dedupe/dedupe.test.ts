// A sample of each fault. A failure names the seed; `npm run chaos:dedupe` repeats it, and runs a hundred rounds of each.
import { randomInt } from 'node:crypto'
import { expect } from 'chai'
import { ofSuite } from '../../support/parts.js'
import { GATEWAYS, injectFaults } from './faults.js'
import { Fleet } from './fleet.js'

for (const store of ['redis', 'lmdb'] as const) {
  describe(`several gateways with ${store}`, function () {
    this.timeout(120_000)

    const fleet = ofSuite(() => Fleet.start(GATEWAYS, store))

    beforeEach(() => fleet.upstream.calls.splice(0))

    it('call the upstream once for 200 simultaneous duplicates', async () => {
      fleet.upstreamMs = () => 50
      // Another try at a failed test needs a key that no try has used.
      const key = `one-${randomInt(2 ** 30)}`
      const responses = await Promise.all(
        Array.from({ length: 200 }, (_, i) => fleet.call(i % GATEWAYS, key)),
      )
      expect(new Set(responses.map(({ status }) => status))).to.deep.equal(new Set([200]))
      expect(new Set(responses.map(({ body }) => body)).size).to.equal(1)
      expect(responses.filter(({ mark }) => mark === 'first')).to.have.lengthOf(1)
      expect(responses.filter(({ mark }) => mark === 'replay')).to.have.lengthOf(199)
      expect(fleet.upstream.calls).to.have.lengthOf(1)
    })

    it('do not call it twice if a gateway is killed during a call', async () => {
      await injectFaults(fleet, 'kill', 1, randomInt(2 ** 30))
    })

    it('do not call it twice if a gateway is stopped until its leases expire', async () => {
      await injectFaults(fleet, 'pause', 1, randomInt(2 ** 30))
    })

    if (store !== 'redis') return

    it('do not call it twice if their store is killed during a call', async () => {
      await injectFaults(fleet, 'store', 1, randomInt(2 ** 30))
    })
  })
}
