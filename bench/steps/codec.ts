// The cost of a request before any stage: strict parsing, canonical form and two digests.
import { canonicalize, parseJson, sha256Hex } from '@svc/core/json'
import { ARGUMENTS } from '../gateway/requests.js'
import type { Step } from './step.js'

const CALLS = 20_000
const ANSWER = Buffer.alloc(300, 0x61)

export function codecSteps(): Step[] {
  const body = Buffer.from(JSON.stringify(ARGUMENTS))
  const value = parseJson(body)
  const canonical = canonicalize(value)
  return [
    { name: 'parse and canonicalize', micros: timed(() => canonicalize(parseJson(body))) },
    { name: 'hashes of input and output', micros: timed(() => sha256Hex(canonical) + sha256Hex(ANSWER)) },
  ]
}

function timed(work: () => unknown): number {
  for (let i = 0; i < CALLS / 4; i++) work()
  const start = performance.now()
  for (let i = 0; i < CALLS; i++) work()
  return ((performance.now() - start) * 1000) / CALLS
}
