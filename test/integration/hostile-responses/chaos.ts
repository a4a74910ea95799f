// `npm run chaos:responses`: every shape on every channel, in several sizes. Prints what came of each.
import { parseArgs } from 'node:util'
import { allCases, attack } from './experiment.js'

const { values } = parseArgs({
  options: {
    mb: { type: 'string', multiple: true, default: ['12', '24', '63'] },
    bound: { type: 'string', default: '5000' },
    only: { type: 'string', default: '' },
  },
})
const cases = values.mb.flatMap((mb) => allCases.map((one) => ({ ...one, mb })))

for (const { mb, ...one } of cases) {
  const name = `${one.channel}: ${one.shape}, ${mb} MiB`
  if (!name.includes(values.only)) continue
  const start = performance.now()
  let result: string
  try {
    const { statuses, text, longestMs } = await attack(one, Number(mb) * 1_048_576)
    const code = /"error":"([A-Z_]+)"/.exec(text)?.[1] ?? ''
    const isSlow = longestMs > Number(values.bound)
    if (isSlow) process.exitCode = 1
    result = `${isSlow ? 'FAILED' : 'passed'}: ${statuses.at(-1)} ${code}, others waited ${longestMs.toFixed(0)} ms`
  } catch (error) {
    process.exitCode = 1
    result = `FAILED: ${error instanceof Error ? error.message : String(error)}`
  }
  const seconds = ((performance.now() - start) / 1_000).toFixed(1)
  process.stdout.write(`${name}, ${seconds} s: ${result}\n`)
}
