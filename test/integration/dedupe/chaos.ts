// `npm run chaos:dedupe`: gateways killed in the middle of calls, in full. Prints the seed, the rounds and what came of
// them.
import { randomInt } from 'node:crypto'
import { parseArgs } from 'node:util'
import type { StoreName } from './fleet.js'
import { killedGateways } from './killed-gateway.js'

const stores: readonly StoreName[] = ['redis', 'lmdb']
const { values } = parseArgs({
  options: {
    store: { type: 'string' },
    seed: { type: 'string' },
    rounds: { type: 'string' },
    help: { type: 'boolean', default: false },
  },
})
const isWrong =
  (values.store !== undefined && !stores.some((store) => store === values.store)) ||
  [values.seed, values.rounds].some((text) => text !== undefined && !/^\d{1,9}$/.test(text))

if (values.help || isWrong) {
  say(`npm run chaos:dedupe -- [--store ${stores.join('|')}] [--seed NUMBER] [--rounds NUMBER]`)
  process.exitCode = isWrong ? 1 : 0
} else {
  const seed = Number(values.seed ?? randomInt(2 ** 30))
  const rounds = Number(values.rounds ?? 100)
  for (const store of stores) {
    if (values.store !== undefined && values.store !== store) continue
    const start = performance.now()
    const tell = (result: string) => {
      const seconds = ((performance.now() - start) / 1_000).toFixed(1)
      say(`${store}: seed ${seed}, ${rounds} rounds, ${seconds} s: ${result}`)
    }
    try {
      const figures = Object.entries(await killedGateways(rounds, seed, store))
      tell(`passed (${figures.map(([what, figure]) => `${what} ${figure}`).join(', ')})`)
    } catch (fault) {
      tell(`FAILED: ${fault instanceof Error ? fault.message : String(fault)}`)
      process.exitCode = 1
    }
  }
}

function say(line: string): void {
  process.stdout.write(`${line}\n`)
}
