// `npm run chaos:responses`: every shape on every channel, in the full size. Prints what came of each.
import { parseArgs } from 'node:util'
import { allCases, attack } from './experiment.js'

const { values } = parseArgs({
  options: {
    mb: { type: 'string', default: '63' },
    bound: { type: 'string', default: '5000' },
    only: { type: 'string', default: '' },
  },
})
const bytes = Number(values.mb) * 1_048_576

for (const one of allCases) {
  const name = `${one.channel}: ${one.shape}`
  if (!name.includes(values.only)) continue
  const start = performance.now()
  let result: string
  try {
    const { statuses, text, longestMs } = await attack(one, bytes)
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
