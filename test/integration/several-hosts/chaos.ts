// `npm run chaos:hosts`: rounds of faults in random order. Prints the seed, the rounds and the counts.
import { randomInt } from 'node:crypto'
import { parseArgs } from 'node:util'
import { Chance } from '../../support/chance.js'
import { faults, runExperiment } from './experiment.js'

const { values } = parseArgs({
  options: {
    seed: { type: 'string' },
    rounds: { type: 'string' },
    help: { type: 'boolean', default: false },
  },
})
const isWrong = [values.seed, values.rounds].some((text) => text !== undefined && !/^\d{1,9}$/.test(text))

if (values.help || isWrong) {
  process.stdout.write('npm run chaos:hosts -- [--seed NUMBER] [--rounds NUMBER]\n')
  process.exitCode = isWrong ? 1 : 0
} else {
  const seed = Number(values.seed ?? randomInt(2 ** 30))
  const rounds = Number(values.rounds ?? 40)
  const chance = new Chance(seed)
  const order = Array.from({ length: rounds }, () => chance.pick(faults))
  const start = performance.now()
  try {
    const figures = Object.entries(await runExperiment(order, seed))
    tell(`passed (${figures.map(([what, figure]) => `${what} ${figure}`).join(', ')})`)
  } catch (error) {
    tell(`FAILED: ${error instanceof Error ? error.message : String(error)}`)
    process.exitCode = 1
  }

  function tell(result: string): void {
    const seconds = ((performance.now() - start) / 1_000).toFixed(1)
    process.stdout.write(`${rounds} rounds, seed ${seed}, ${seconds} s: ${result}\n`)
  }
}
