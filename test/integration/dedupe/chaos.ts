// `npm run chaos:dedupe`: many rounds of each fault. Prints the seed, the rounds and the results.
import { randomInt } from 'node:crypto'
import { parseArgs } from 'node:util'
import { type Fault, GATEWAYS, injectFaults } from './faults.js'
import { Fleet, type StoreName } from './fleet.js'

const stores: readonly StoreName[] = ['redis', 'lmdb']
const all: readonly Fault[] = ['kill', 'pause', 'store']
const { values } = parseArgs({
  options: {
    error: { type: 'string' },
    store: { type: 'string' },
    seed: { type: 'string' },
    rounds: { type: 'string' },
    help: { type: 'boolean', default: false },
  },
})
const isWrong =
  (values.error !== undefined && !all.some((error) => error === values.error)) ||
  (values.store !== undefined && !stores.some((store) => store === values.store)) ||
  [values.seed, values.rounds].some((text) => text !== undefined && !/^\d{1,9}$/.test(text))

if (values.help || isWrong) {
  say(
    `npm run chaos:dedupe -- [--error ${all.join('|')}] [--store ${stores.join('|')}] [--seed NUMBER] [--rounds NUMBER]`,
  )
  process.exitCode = isWrong ? 1 : 0
} else {
  const seed = Number(values.seed ?? randomInt(2 ** 30))
  const rounds = Number(values.rounds ?? 100)
  for (const error of all.filter((one) => values.error === undefined || values.error === one)) {
    for (const store of stores.filter((one) => values.store === undefined || values.store === one)) {
      // LMDB has no server.
      if (error === 'store' && store === 'lmdb') continue
      await run(error, store, rounds, seed)
    }
  }
}

async function run(fault: Fault, store: StoreName, rounds: number, seed: number): Promise<void> {
  const start = performance.now()
  const tell = (result: string) => {
    const seconds = ((performance.now() - start) / 1_000).toFixed(1)
    say(`${fault}, ${store}: seed ${seed}, ${rounds} rounds, ${seconds} s: ${result}`)
  }
  try {
    await using fleet = await Fleet.start(GATEWAYS, store)
    const figures = Object.entries(await injectFaults(fleet, fault, rounds, seed))
    tell(`passed (${figures.map(([what, figure]) => `${what} ${figure}`).join(', ')})`)
  } catch (error) {
    tell(`FAILED: ${error instanceof Error ? error.message : String(error)}`)
    process.exitCode = 1
  }
}

function say(line: string): void {
  process.stdout.write(`${line}\n`)
}
