import { expect } from 'chai'
import { Chance } from '../../support/chance.js'
import { type Kill, KilledWorkers } from './killed-workers.js'

const seed = Number(process.env['SVC_SEED'] ?? 20261123)
/** `npm run chaos:hosts` tries every operation, the others a sample. */
const isWhole = process.env['SVC_KILLS'] === 'all'
const SAMPLE = 4
/** Where one found a reload that never ended. */
const found: Kill = {
  phase: 'reload',
  operation: 'writeSync',
  path: 'audit/audit-#-#-#.ndjson',
  when: 'after',
}
/** A worker that ends again and again is replaced later and later. */
const KILLS_OF_A_GATEWAY = 8

describe('a worker that is killed at one exact file operation', function () {
  this.timeout(isWhole ? 3_600_000 : 120_000)

  it('of a start, of calls, of a seal or of a reload loses and doubles nothing', async () => {
    let gateway = await KilledWorkers.start()
    try {
      const all = (await gateway.points()).flatMap((point): Kill[] => [
        { ...point, when: 'before' },
        { ...point, when: 'after' },
      ])
      const chance = new Chance(seed)
      const kills = isWhole
        ? all
        : [found, ...Array.from({ length: SAMPLE }, () => all[chance.int(0, all.length - 1)])]
      let reached = 0
      for (const [index, kill] of kills.entries()) {
        if (index > 0 && index % KILLS_OF_A_GATEWAY === 0) {
          await gateway.count()
          await gateway[Symbol.asyncDispose]()
          gateway = await KilledWorkers.start()
        }
        if (kill === undefined) continue
        try {
          if (await gateway.kill(kill)) reached++
        } catch (cause) {
          throw new Error(`SVC_SEED=${seed} ${JSON.stringify(kill)}`, { cause })
        }
      }
      // Some files are made once.
      expect(reached, `of ${kills.length} operations`).to.be.at.least(1)
      expect((await gateway.count()).responses).to.be.at.least(1)
    } finally {
      await gateway[Symbol.asyncDispose]()
    }
  })
})
