// node examples/runtime-evaluator/dist/start.js [RULES.json | POLICIES.cedar]: listens until it is stopped. PORT and API_KEY are read
// from the environment.
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { startEvaluator } from './evaluator.js'
import type { Rule } from './rules.js'

const [, , file = fileURLToPath(new URL('../rules.json', import.meta.url))] = process.argv
const { PORT = '8790', API_KEY } = process.env
const text = readFileSync(file, 'utf8')
const decides = file.endsWith('.cedar')
  ? { decider: (await import('./cedar.js')).cedarDecider(text) }
  : { rules: JSON.parse(text) as Rule[] }
const { url } = await startEvaluator({
  port: Number(PORT),
  ...decides,
  ...(API_KEY === undefined ? {} : { apiKey: API_KEY }),
})
console.log(`the evaluator listens on ${url}`)
