// The cost of HTTP in the relay: server half and client half.

import { requestsFor } from '../gateway/requests.js'
import type { Scene } from '../gateway/scene.js'
import type { Child } from '../measure/child.js'
import type { Step } from './step.js'

const CONNECTIONS = 64
const CALLS = 20_000

export async function httpSteps(scene: Scene, subjects: { echo: Child; relay: Child }): Promise<Step[]> {
  const server = await cpuPerCall(scene, subjects.echo)
  const both = await cpuPerCall(scene, subjects.relay)
  return [
    { name: 'node:http', micros: server },
    { name: 'undici', micros: both - server },
  ]
}

async function cpuPerCall(scene: Scene, child: Child): Promise<number> {
  const { port } = child
  const job = { port, connections: CONNECTIONS, requests: requestsFor(port, scene.tokens) }
  await scene.load.ask('load', { ...job, until: { calls: CALLS / 4 } })
  const before = await child.ask('cpu')
  await scene.load.ask('load', { ...job, until: { calls: CALLS } })
  return ((await child.ask('cpu')) - before) / CALLS
}
