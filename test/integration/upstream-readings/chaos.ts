// `npm run chaos:requests`: the differential tests in full. Prints the seed and the results.
import { randomInt } from 'node:crypto'
import { parseArgs } from 'node:util'
import { compareBoundMembers } from './bound-members.js'
import { compareReadings } from './experiment.js'
import { compareMembers } from './members.js'
import { compareNames } from './names.js'

const { values } = parseArgs({
  options: {
    seed: { type: 'string' },
    requests: { type: 'string' },
    help: { type: 'boolean', default: false },
  },
})
const isWrong = [values.seed, values.requests].some((text) => text !== undefined && !/^\d{1,9}$/.test(text))

if (values.help || isWrong) {
  process.stdout.write('npm run chaos:requests -- [--seed NUMBER] [--requests NUMBER]\n')
  process.exitCode = isWrong ? 1 : 0
} else {
  const seed = Number(values.seed ?? randomInt(2 ** 30))
  const requests = Number(values.requests ?? 700_000)
  for (const [what, compare] of Object.entries({
    references: compareReadings,
    names: compareNames,
    members: compareMembers,
    'bound members': async (first: number, count: number) => compareBoundMembers(first, count),
  })) {
    const start = performance.now()
    const report = (result: string) => {
      const seconds = ((performance.now() - start) / 1_000).toFixed(1)
      process.stdout.write(`${what}: seed ${seed}, ${requests} requests, ${seconds} s: ${result}\n`)
    }
    try {
      const { sent } = await compare(seed, requests)
      report(`passed (sent ${sent})`)
    } catch (error) {
      report(`FAILED: ${error instanceof Error ? error.message : String(error)}`)
      process.exitCode = 1
    }
  }
}
