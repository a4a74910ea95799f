import { expect } from 'chai'
import { Chance } from '../../support/chance.js'
import { ofSuite } from '../../support/parts.js'
import { propertyRuns } from '../../support/property-runs.js'
import { endless } from './behaviours.js'
import { allCases, type Case, StagesExperiment } from './experiment.js'

/** SVC_SEED=2 runs another sample. */
const seed = Number(process.env['SVC_SEED'] ?? 1)

describe('a custom stage that misbehaves', () => {
  const experiment = ofSuite(() => new StagesExperiment().start())

  it('has one correct record per call: a call that ran is recorded as sent, counted and allowed', async () => {
    const cases = allCases()
    const chance = new Chance(seed)
    const runs = propertyRuns(500)
    const chosen =
      runs >= cases.length
        ? cases
        : Array.from({ length: runs }, () => cases[chance.int(0, cases.length - 1)])
    const wrong: { readonly one: Case; readonly found: readonly string[] }[] = []
    const work = async (queue: Iterable<Case | undefined>): Promise<void> => {
      for (const one of queue) {
        if (one === undefined) continue
        const found = await experiment.wrongOf(one)
        if (found.length > 0) wrong.push({ one, found })
      }
    }
    // These cases only wait for the time limits of the pipeline, so they run beside the others.
    const idle = allCases(endless.keys())
    const waiting = Array.from({ length: 24 }, () => [idle[chance.int(0, idle.length - 1)]])
    const queue = chosen.values()
    await Promise.all([...waiting, ...Array.from({ length: 16 }, () => queue)].map(work))
    // One example of each behaviour.
    const examples = new Map(wrong.map((each) => [each.one.behaviour, each]))
    const shown = [...examples.values()]
      .slice(0, 20)
      .map((each) => JSON.stringify(each))
      .join('\n')
    expect(wrong.length, `of ${chosen.length} with SVC_SEED=${seed}:\n${shown}`).to.equal(0)
  })
})
