import { experiments } from './experiments.js'

/** One sample for every run; `npm run chaos:audit` tries others, with a seed that it prints. */
const seed = Number(process.env['SVC_SEED'] ?? 1)

describe('the audit log', () => {
  for (const { name, short, rounds } of experiments) {
    it(`passes the experiment ${name}`, async function () {
      this.timeout(120_000)
      await rounds(short, seed)
    })
  }
})
