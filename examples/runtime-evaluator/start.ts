// node examples/runtime-evaluator/dist/start.js [RULES.json]: listens until it is stopped. PORT and API_KEY are read
// from the environment.
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { startEvaluator } from './evaluator.js'
import type { Rule } from './rules.js'

const [, , file = fileURLToPath(new URL('../rules.json', import.meta.url))] = process.argv
const { PORT = '8790', API_KEY } = process.env
const { url } = await startEvaluator({
  port: Number(PORT),
  rules: JSON.parse(readFileSync(file, 'utf8')) as Rule[],
  ...(API_KEY === undefined ? {} : { apiKey: API_KEY }),
})
console.log(`the evaluator listens on ${url}`)
