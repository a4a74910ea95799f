// `npm run chaos:dedupe`: the mishaps in full. Prints the seed, the rounds and what came of them.
import { randomInt } from 'node:crypto'
import { parseArgs } from 'node:util'
import { Fleet, type StoreName } from './fleet.js'
import { GATEWAYS, type Mishap, mishaps } from './mishaps.js'

const stores: readonly StoreName[] = ['redis', 'lmdb']
const all: readonly Mishap[] = ['kill', 'pause', 'store']
const { values } = parseArgs({
  options: {
    mishap: { type: 'string' },
    store: { type: 'string' },
    seed: { type: 'string' },
    rounds: { type: 'string' },
    help: { type: 'boolean', default: false },
  },
})
const isWrong =
  (values.mishap !== undefined && !all.some((mishap) => mishap === values.mishap)) ||
  (values.store !== undefined && !stores.some((store) => store === values.store)) ||
  [values.seed, values.rounds].some((text) => text !== undefined && !/^\d{1,9}$/.test(text))

if (values.help || isWrong) {
  say(
    `npm run chaos:dedupe -- [--mishap ${all.join('|')}] [--store ${stores.join('|')}] [--seed NUMBER] [--rounds NUMBER]`,
  )
  process.exitCode = isWrong ? 1 : 0
} else {
  const seed = Number(values.seed ?? randomInt(2 ** 30))
  const rounds = Number(values.rounds ?? 100)
  for (const mishap of all.filter((one) => values.mishap === undefined || values.mishap === one)) {
    for (const store of stores.filter((one) => values.store === undefined || values.store === one)) {
      // There is no server of LMDB that could be killed.
      if (mishap === 'store' && store === 'lmdb') continue
      await run(mishap, store, rounds, seed)
    }
  }
}

async function run(mishap: Mishap, store: StoreName, rounds: number, seed: number): Promise<void> {
  const start = performance.now()
  const tell = (result: string) => {
    const seconds = ((performance.now() - start) / 1_000).toFixed(1)
    say(`${mishap}, ${store}: seed ${seed}, ${rounds} rounds, ${seconds} s: ${result}`)
  }
  try {
    await using fleet = await Fleet.start(GATEWAYS, store)
    const figures = Object.entries(await mishaps(fleet, mishap, rounds, seed))
    tell(`passed (${figures.map(([what, figure]) => `${what} ${figure}`).join(', ')})`)
  } catch (fault) {
    tell(`FAILED: ${fault instanceof Error ? fault.message : String(fault)}`)
    process.exitCode = 1
  }
}

function say(line: string): void {
  process.stdout.write(`${line}\n`)
}
