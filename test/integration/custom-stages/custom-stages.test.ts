import { expect } from 'chai'
import { Chance } from '../../support/chance.js'
import { propertyRuns } from '../../support/property-runs.js'
import { allCases, type Case, StagesExperiment } from './experiment.js'

/** Another sample: SVC_SEED=2. */
const seed = Number(process.env['SVC_SEED'] ?? 1)

describe('a custom stage that misbehaves', () => {
  let experiment: StagesExperiment
  before(async () => {
    experiment = await new StagesExperiment().start()
  })
  after(() => experiment[Symbol.asyncDispose]())

  it('leaves one true record: what was executed is recorded as sent, counted and allowed', async () => {
    const cases = allCases()
    const chance = new Chance(seed)
    const runs = propertyRuns(1000)
    const chosen =
      runs >= cases.length
        ? cases
        : Array.from({ length: runs }, () => cases[chance.int(0, cases.length - 1)])
    const wrong: { readonly one: Case; readonly found: readonly string[] }[] = []
    const queue = chosen.values()
    const work = async (): Promise<void> => {
      for (const one of queue) {
        if (one === undefined) continue
        const found = await experiment.wrongOf(one)
        if (found.length > 0) wrong.push({ one, found })
      }
    }
    await Promise.all(Array.from({ length: 16 }, work))
    // One example of each behaviour.
    const examples = new Map(wrong.map((each) => [each.one.behaviour, each]))
    const shown = [...examples.values()]
      .slice(0, 20)
      .map((each) => JSON.stringify(each))
      .join('\n')
    expect(wrong.length, `of ${chosen.length} with SVC_SEED=${seed}:\n${shown}`).to.equal(0)
  })
})
