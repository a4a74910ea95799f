// `npm run chaos:audit`: the experiments in full. Prints the seed, the rounds and their figures.

import { randomInt } from 'node:crypto'
import { parseArgs } from 'node:util'
import { experiments } from './experiments.js'

const { values } = parseArgs({
  options: {
    only: { type: 'string', multiple: true },
    seed: { type: 'string' },
    rounds: { type: 'string' },
    help: { type: 'boolean', default: false },
  },
})
const known = experiments.map(({ name }) => name)
const wrong = [
  ...(values.only ?? []).filter((name) => !known.includes(name)),
  ...[values.seed, values.rounds].filter((text) => text !== undefined && !/^\d{1,10}$/.test(text)),
]

if (values.help || wrong.length > 0) {
  if (wrong.length > 0) say(`not understood: ${wrong.join(', ')}`)
  say(`npm run chaos:audit -- [--only ${known.join('|')}]… [--seed NUMBER] [--rounds NUMBER]`)
  process.exitCode = wrong.length > 0 ? 1 : 0
} else {
  const seed = Number(values.seed ?? randomInt(2 ** 31))
  for (const { name, full, rounds } of experiments) {
    if (values.only !== undefined && !values.only.includes(name)) continue
    const count = Number(values.rounds ?? full)
    const start = performance.now()
    const tell = (result: string) => {
      const seconds = ((performance.now() - start) / 1_000).toFixed(1)
      say(`${name}: seed ${seed}, ${count} rounds, ${seconds} s: ${result}`)
    }
    try {
      const figures = Object.entries(await rounds(count, seed)).map(([what, figure]) => `${what} ${figure}`)
      tell(`passed (${figures.join(', ')})`)
    } catch (error) {
      tell(`FAILED: ${error instanceof Error ? error.message : String(error)}`)
      process.exitCode = 1
    }
  }
}

function say(line: string): void {
  process.stdout.write(`${line}\n`)
}
