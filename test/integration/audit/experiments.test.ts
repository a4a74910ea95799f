import { randomInt } from 'node:crypto'
import { experiments } from './experiments.js'

// A failure names the seed; `npm run chaos:audit` repeats it.
describe('the audit log, by experiment', () => {
  for (const { name, short, rounds } of experiments) {
    it(`withstands ${name}`, async function () {
      this.timeout(120_000)
      await rounds(short, randomInt(2 ** 31))
    })
  }
})
