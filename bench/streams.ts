// Streams of events over MCP: how much later a client gets an event through the gateway, and what an open stream takes.
import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createServer, type ServerResponse } from 'node:http'
import { join } from 'node:path'
import type { Readable } from 'node:stream'
import { generateKeyFile } from '@svc/plugin-audit/log'
import { startGatewayServer } from 'svc-sdk/gateway'
import { Agent, request } from 'undici'
import { listen } from './gateway/listen.js'
import { Child } from './measure/child.js'
import { heading, print, table } from './measure/report.js'
import { quantile } from './measure/statistics.js'

const OPEN = 2_000
const AT_ONCE = 100
const MAX_ADDED_MS = 2
const MAX_BYTES = 60_000

const call = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'echo' } })
const event = (value: object): string => `data: ${JSON.stringify({ jsonrpc: '2.0', ...value })}\n\n`
const progress = event({ method: 'notifications/progress', params: { progressToken: 1, progress: 1 } })
const result = event({ id: 1, result: { content: [] } })

/** Milliseconds of each event, and kilobytes of a stream. */
export async function measureStreams(disk: string, quick: boolean): Promise<unknown> {
  heading('Streams over MCP')
  const home = await mkdtemp(join(disk, 'svc-bench-'))
  const server = new EventServer()
  const agent = new Agent({ connections: null })
  try {
    const port = await listen(server.http)
    const policy = policyOf(home, `http://127.0.0.1:${port}/mcp`)
    generateKeyFile(join(home, 'key'))
    const direct = { server, agent, url: `http://127.0.0.1:${port}/mcp` }
    const latency = await measureLatency(policy, direct, quick ? 200 : 1_000)
    return { latency, memory: await measureMemory(home, policy, agent) }
  } finally {
    await agent.destroy()
    server.http.closeAllConnections()
    server.http.close()
    await rm(home, { recursive: true })
  }
}

/** Responds to calls with a stream of progress and the result; keeps the others open. */
class EventServer {
  /** When the first event of the last call was sent. */
  sentAt = 0
  /** The last stream that was opened. */
  open: ServerResponse | undefined
  readonly http = createServer((message, response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    if (message.method === 'GET') {
      response.flushHeaders()
      this.open = response
      return
    }
    message.resume().once('end', () => {
      this.sentAt = performance.now()
      response.write(progress)
      response.end(result)
    })
  })
}

function policyOf(home: string, target: string): object {
  return {
    port: 0,
    tenant: 'acme',
    sec0Dir: join(home, 'state'),
    targets: { events: target },
    audit: {
      gatewayName: 'bench',
      gatewayVersion: '1.0.0',
      dir: join(home, 'audit'),
      signer: { keyRef: `file://${join(home, 'key')}` },
    },
    quotas: { adapter: 'memory' },
    authn: { allowUnauthenticated: true },
    entitlements: { default_plan: 'all', plans: { all: { allowlist: ['events/*'] } }, tenants: {} },
    server: { maxConnectionsPerAddress: 2 * OPEN },
  }
}

interface Scene {
  readonly server: EventServer
  readonly agent: Agent
  readonly url: string
}

/** Server, gateway and client share one process, and thus one clock. */
async function measureLatency(policy: object, scene: Scene, samples: number): Promise<unknown> {
  const times: Record<string, Record<'directly' | 'through', number[]>> = {}
  const gateway = startGatewayServer({ policyYaml: JSON.stringify(policy) })
  const { url } = await gateway.ready()
  const through = { ...scene, url: `${url}/mcp/events` }
  const rows = [['', 'directly p50 ms', 'through p50 ms', 'p95 ms', `added p50 (target ${MAX_ADDED_MS})`]]
  for (const [what, measure] of [
    ['an event on an open stream', eventTimes],
    ['the first event of a call', firstEventTimes],
  ] as const) {
    await measure(through, 50)
    const [bare, added] = [await measure(scene, samples), await measure(through, samples)]
    times[what] = { directly: bare, through: added }
    const [p50, other] = [quantile(bare, 0.5), quantile(added, 0.5)]
    const cells = [p50, other, quantile(added, 0.95), other - p50].map((ms) => ms.toFixed(3))
    rows.push([what, ...cells])
  }
  table(rows)
  await gateway.close()
  return times
}

async function eventTimes({ server, agent, url }: Scene, samples: number): Promise<number[]> {
  const stream = await openStream(agent, url)
  const times: number[] = []
  while (times.length < samples) {
    const begun = performance.now()
    server.open?.write(progress)
    await once(stream, 'data')
    times.push(performance.now() - begun)
  }
  stream.destroy()
  return times
}

async function firstEventTimes({ server, agent, url }: Scene, samples: number): Promise<number[]> {
  const times: number[] = []
  const headers = { 'content-type': 'application/json', accept: 'application/json, text/event-stream' }
  while (times.length < samples) {
    const { body } = await request(url, { dispatcher: agent, method: 'POST', headers, body: call })
    let arrived: number | undefined
    for await (const _ of body) arrived ??= performance.now()
    times.push((arrived ?? Number.NaN) - server.sentAt)
  }
  return times
}

/** The gateway is alone in its process. */
async function measureMemory(home: string, policy: object, agent: Agent): Promise<unknown> {
  const file = join(home, 'policy.json')
  await writeFile(file, JSON.stringify(policy))
  const gateway = await Child.start('gateway/gateway', { args: [file], execArgv: ['--expose-gc'] })
  const url = `http://127.0.0.1:${gateway.port}/mcp/events`
  const open = (): Promise<Readable[]> =>
    Promise.all(Array.from({ length: AT_ONCE }, () => openStream(agent, url)))
  const kept = await open()
  const before = await gateway.ask('memory')
  while (kept.length < AT_ONCE + OPEN) kept.push(...(await open()))
  const after = await gateway.ask('memory')
  const [rss, heap] = [after.rss - before.rss, after.heap - before.heap].map((bytes) => bytes / OPEN / 1000)
  print(
    `  ${OPEN} more open streams: ${rss?.toFixed(1)} KB of RSS each, ${heap?.toFixed(1)} KB of heap (target ${MAX_BYTES / 1000})`,
  )
  for (const stream of kept) stream.destroy()
  await gateway.stop()
  return { rss, heap }
}

async function openStream(dispatcher: Agent, url: string): Promise<Readable> {
  const { body, statusCode } = await request(url, { dispatcher, headers: { accept: 'text/event-stream' } })
  if (statusCode !== 200) throw new Error(`the stream was refused: ${statusCode}`)
  body.on('error', () => undefined)
  return body
}
