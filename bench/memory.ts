// Checks for memory leaks: the heap after a full garbage collection, over 100,000 calls.

import { requestsFor } from './gateway/requests.js'
import { Scene } from './gateway/scene.js'
import { heading, print, table } from './measure/report.js'
import { slope } from './measure/statistics.js'

const CONNECTIONS = 16
const STEPS = 10

export async function measureMemory(disk: string, quick: boolean): Promise<unknown> {
  const step = quick ? 2_000 : 10_000
  heading(`Memory over ${(STEPS * step).toLocaleString('en')} calls after warm-up`)
  const scene = await Scene.set(disk)
  try {
    const gateway = await scene.subject('gateway', { execArgv: ['--expose-gc'] })
    const { port } = gateway
    const job = { port, connections: CONNECTIONS, requests: requestsFor(port, scene.tokens) }
    await scene.load.ask('load', { ...job, until: { calls: 3 * step } })
    const samples = [{ calls: 0, ...(await gateway.ask('memory')) }]
    for (let calls = step; calls <= STEPS * step; calls += step) {
      await scene.load.ask('load', { ...job, until: { calls: step } })
      samples.push({ calls, ...(await gateway.ask('memory')) })
    }
    table([
      ['calls', 'heap used MiB', 'RSS MiB'],
      ...samples.map(({ calls, heap, rss }) => [String(calls), mebibytes(heap), mebibytes(rss)]),
    ])
    const heap = slope(samples.map((sample) => [sample.calls, sample.heap]))
    const rss = slope(samples.map((sample) => [sample.calls, sample.rss]))
    print(`  slope: heap ${heap.toFixed(2)} bytes a call, RSS ${rss.toFixed(2)} bytes a call`)
    return samples
  } finally {
    await scene.end()
  }
}

function mebibytes(bytes: number): string {
  return (bytes / 2 ** 20).toFixed(2)
}
