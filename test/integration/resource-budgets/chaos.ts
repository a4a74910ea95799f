// `npm run chaos:budgets`: every shape on every channel, each in a size that the seed chooses. Prints the outcome of each.
import { randomInt } from 'node:crypto'
import { parseArgs } from 'node:util'
import { Chance } from '../../support/chance.js'
import { allCases, attack, violations } from './experiment.js'

const { values } = parseArgs({
  options: {
    seed: { type: 'string', default: String(randomInt(2 ** 30)) },
    mb: { type: 'string' },
    heap: { type: 'string', default: '256' },
    only: { type: 'string', default: '' },
  },
})
const chance = new Chance(Number(values.seed))
const mb = (bytes: number): string => (bytes / 1_048_576).toFixed(0)

process.stdout.write(`seed ${values.seed}\n`)
for (const one of allCases) {
  const size = values.mb === undefined ? chance.pick([1, 4, 12, 24, 63]) : Number(values.mb)
  const name = `${one.channel}: ${one.shape}, ${size} MiB`
  if (!name.includes(values.only)) continue
  let result: string
  try {
    const outcome = await attack(one, size * 1_048_576, Number(values.heap))
    const { statuses, text, idleMs, healthMs, turnMs, keptBytes } = outcome
    const code = /"error":"([A-Z_]+)"/.exec(text)?.[1] ?? ''
    const found = violations(outcome)
    if (found.length > 0) process.exitCode = 1
    const figures = `/healthz ${healthMs.toFixed(0)} ms (idle ${idleMs.toFixed(0)}), turn ${turnMs.toFixed(0)} ms, kept ${mb(keptBytes)} MiB`
    const verdict = found.length > 0 ? 'FAILED' : 'passed'
    result = `${verdict}: ${statuses.at(-1) ?? ''} ${code}, ${figures}`
  } catch (error) {
    process.exitCode = 1
    result = `FAILED: ${error instanceof Error ? error.message : String(error)}`
  }
  process.stdout.write(`${name}: ${result}\n`)
}
