import { expect } from 'chai'
import { HeldLimit } from 'svc-sdk/internal/workers/held-limit'
import { type LimitHolder, LimitParts } from 'svc-sdk/internal/workers/limit-parts'
import { Chance } from '../../support/chance.js'
import { propertyRuns } from '../../support/property-runs.js'

const seed = Number(process.env['SVC_SEED'] ?? 20261123)

/** Some workers with one limit, whose messages arrive in their order, after a number of turns by chance. */
class Workers {
  readonly limits: HeldLimit[] = []
  readonly used: number[] = []
  #parts: LimitParts<LimitHolder>
  #holders: LimitHolder[] = []
  #chance: Chance

  constructor(count: number, max: number, chance: Chance) {
    this.#chance = chance
    this.#parts = new LimitParts(() => this.#holders.filter((holder) => holder !== undefined))
    for (let i = 0; i < count; i++) this.#start(i, max)
  }

  end(worker: number, max: number): void {
    const [holder] = this.#holders.splice(worker, 1)
    if (holder !== undefined) this.#parts.forget(holder)
    this.limits.splice(worker, 1)
    this.used.splice(worker, 1)
    this.#start(this.limits.length, max)
  }

  #start(worker: number, max: number): void {
    const [toMain, toWorker] = [this.#channel(), this.#channel()]
    const limit: HeldLimit = new HeldLimit(max, {
      take: async (key, of) => {
        await toMain()
        const more = this.#parts.take(holder, 'calls', key, of)
        return more.then(async (count) => {
          await toWorker()
          return count
        })
      },
      giveBack: (key, count) => void toMain().then(() => this.#parts.giveBack(holder, 'calls', key, count)),
    })
    const holder: LimitHolder = {
      recall: async (_, key) => {
        await toWorker()
        limit.recall(key)
        await toMain()
      },
    }
    this.limits[worker] = limit
    this.used[worker] = 0
    this.#holders[worker] = holder
  }

  #channel(): () => Promise<void> {
    let last = Promise.resolve()
    return () => {
      const turns = this.#chance.int(0, 3)
      last = last.then(async () => {
        for (let i = 0; i < turns; i++) await Promise.resolve()
      })
      return last
    }
  }
}

describe('a limit that workers share', () => {
  it(`is never exceeded, and refuses none while there is room (SVC_SEED=${seed})`, async () => {
    const chance = new Chance(seed)
    for (let run = 0; run < propertyRuns(100); run++) {
      const max = chance.int(0, 6)
      const workers = new Workers(chance.int(1, 4), max, chance)
      const inUse = () => workers.used.reduce((sum, used) => sum + used, 0)
      for (let step = 0; step < 60; step++) {
        const worker = chance.int(0, workers.limits.length - 1)
        const limit = workers.limits[worker] as HeldLimit
        const what = chance.int(0, 9)
        if (what === 0) workers.end(worker, max)
        else if (what === 1) limit.sweep()
        else if (what < 5 && (workers.used[worker] ?? 0) > 0) {
          limit.release('t')
          workers.used[worker] = (workers.used[worker] ?? 0) - 1
        } else {
          const before = inUse()
          const isTaken = await limit.take('t')
          expect(isTaken, `run ${run}, step ${step}: ${before} of ${max}`).to.equal(before < max)
          if (isTaken) workers.used[worker] = (workers.used[worker] ?? 0) + 1
        }
        expect(inUse()).to.be.at.most(max)
      }
    }
  })

  it('is not exceeded by all workers at once', async () => {
    const workers = new Workers(4, 10, new Chance(seed))
    const takes = Array.from({ length: 40 }, (_, i) => workers.limits[i % 4]?.take('t'))
    const taken = (await Promise.all(takes)).filter((isTaken) => isTaken === true)
    expect(taken.length).to.equal(10)
  })

  it('asks nobody for what it holds', () => {
    const limit = new HeldLimit(5, {
      take: () => Promise.reject(new Error('asked')),
      giveBack: () => {
        throw new Error('given back')
      },
    })
    expect(() => limit.recall('t')).not.to.throw()
  })

  it('is refused while one does not respond, and taken from what that one gives back later', async () => {
    const late: LimitHolder = { recall: () => Promise.reject(new Error('no response in time')) }
    const asking: LimitHolder = { recall: async () => undefined }
    const parts = new LimitParts(() => [late, asking])
    expect(await parts.take(late, 'calls', 't', 1)).to.equal(1)
    expect(await parts.take(asking, 'calls', 't', 1)).to.equal(0)
    parts.giveBack(late, 'calls', 't', 1)
    expect(await parts.take(asking, 'calls', 't', 1)).to.equal(1)
  })

  it('keeps the keys of each limit apart', async () => {
    const workers = new Workers(2, 1, new Chance(seed))
    expect(await workers.limits[0]?.take('a')).to.equal(true)
    expect(await workers.limits[1]?.take('b')).to.equal(true)
    expect(await workers.limits[1]?.take('a')).to.equal(false)
  })
})
