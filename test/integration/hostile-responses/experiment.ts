// Sends every shape over every channel to a gateway with a small heap. It must live, and serve its health and the calls of
// others meanwhile.
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { Agent, type IncomingMessage, request } from 'node:http'
import { fileURLToPath } from 'node:url'
import { leashed } from '../../support/leash.js'
import { type Channel, type ChannelName, channels } from './channels.js'
import { startHostileServer } from './hostile-server.js'
import { type Shape, type ShapeName, shapes } from './shapes.js'

export interface Case {
  readonly channel: ChannelName
  readonly shape: ShapeName
}

/** Every shape on every channel that has a place for it. */
export const allCases: readonly Case[] = (Object.keys(channels) as ChannelName[]).flatMap((channel) =>
  (Object.keys(shapes) as ShapeName[])
    .filter((shape) => (channels[channel] as Channel).places.includes(shapes[shape].place))
    .map((shape) => ({ channel, shape })),
)

export interface Outcome {
  /** HTTP status of each request of the attack; undefined where the response broke off before its head. */
  readonly statuses: readonly (number | undefined)[]
  /** The begin of the last response. */
  readonly text: string
  /** The longest that `/healthz` or another caller's call took meanwhile, in milliseconds. */
  readonly longestMs: number
}

const heapMb = 256
/** An attack that is not over by then has stalled. */
const attackMs = 20_000
const probeMs = 50
const shown = 2_048

/** Throws where the gateway dies, or does not serve another caller. */
export async function attack({ channel, shape }: Case, bytes: number): Promise<Outcome> {
  const { rpc, method, path, body }: Channel = channels[channel]
  const { place, times, text }: Shape = shapes[shape]
  await using server = await startHostileServer()
  await using gateway = await startGateway(targetsOf(server.url, shape, bytes))
  const headers: Record<string, string> = {
    accept: method === 'GET' ? 'text/event-stream' : 'application/json, text/event-stream',
    'content-type': 'application/json',
  }
  if (path !== '/mcp/plain/attack@1.0.0' && rpc !== 'initialize') {
    const session = await begin(`${gateway.url}${path}`, headers)
    if (session !== undefined) headers['mcp-session-id'] = session
  }
  server.attack = { rpc, place, text: () => text(bytes) }
  const statuses: (number | undefined)[] = []
  let last = ''
  const attacking = async (): Promise<void> => {
    for (let time = 0; time < times; time++) {
      const { status, begin: text } = await exchange(`${gateway.url}${path}`, {
        method,
        headers,
        body: body === undefined ? '' : JSON.stringify(body),
        ms: attackMs,
      })
      statuses.push(status)
      last = text
    }
  }
  const probes = probing(gateway.url)
  try {
    await Promise.race([attacking(), gateway.died, probes.failed])
  } finally {
    await probes.stop()
  }
  // What the gateway was left with.
  await Promise.race([probeOnce(gateway.url), gateway.died])
  return { statuses, text: last, longestMs: probes.longestMs() }
}

function targetsOf(url: (target: string) => string, shape: ShapeName, bytes: number): object {
  const script = fileURLToPath(new URL('./stdio-server.js', import.meta.url))
  return {
    plain: url('plain'),
    tools: `mcp+${url('tools')}`,
    json: url('json'),
    events: url('events'),
    stream: url('stream'),
    federated: url('federated'),
    good: url('good'),
    stdio: { command: process.execPath, args: [script, shape, String(bytes)] },
  }
}

interface GatewayProcess extends AsyncDisposable {
  readonly url: string
  /** Rejects when the process ends. */
  readonly died: Promise<never>
}

async function startGateway(targets: object): Promise<GatewayProcess> {
  const module = fileURLToPath(new URL('./gateway-process.js', import.meta.url))
  const execArgv = [`--max-old-space-size=${heapMb}`, '--conditions=svc-internal']
  const child = leashed(fork(module, [JSON.stringify(targets)], { execArgv, silent: true }))
  const exit = once(child, 'exit')
  const died = exit.then(([code, signal]) => {
    throw new Error(`the gateway ended with ${code ?? signal}`)
  })
  died.catch(() => undefined)
  const [url] = await Promise.race([once(child, 'message'), died])
  return {
    url: String(url),
    died,
    async [Symbol.asyncDispose]() {
      if (child.exitCode !== null || child.signalCode !== null) return
      child.kill('SIGKILL')
      await exit
    },
  }
}

async function begin(url: string, headers: Record<string, string>): Promise<string | undefined> {
  const body = JSON.stringify({
    jsonrpc: '2.0',
    id: 0,
    method: 'initialize',
    params: { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'c', version: '1' } },
  })
  const { session } = await exchange(url, { method: 'POST', headers, body, ms: attackMs })
  return session
}

interface Sending {
  readonly method: string
  readonly headers?: Record<string, string>
  readonly body?: string
  readonly ms: number
  readonly agent?: Agent
}

interface Exchanged {
  readonly status: number | undefined
  readonly begin: string
  readonly session?: string | undefined
}

/** Reads the response to its end, or to where it breaks off. Rejects where it takes longer than `ms`. */
function exchange(url: string, { method, headers = {}, body = '', ms, agent }: Sending): Promise<Exchanged> {
  return new Promise((resolve, reject) => {
    let status: number | undefined
    let begin = ''
    let session: string | undefined
    const timer = setTimeout(() => {
      sending.destroy()
      reject(new Error(`${method} ${url} took longer than ${ms} ms`))
    }, ms)
    const done = (): void => {
      clearTimeout(timer)
      resolve({ status, begin, session })
    }
    const sending = request(url, { method, headers, agent: agent ?? false }, (message: IncomingMessage) => {
      status = message.statusCode
      const id = message.headers['mcp-session-id']
      session = typeof id === 'string' ? id : undefined
      message.on('data', (piece: Buffer) => {
        if (begin.length < shown) begin += piece.subarray(0, shown).toString('latin1')
      })
      message.once('end', done).once('error', done)
    })
    sending.once('error', done).end(body)
  })
}

async function probeOnce(url: string, agent?: Agent): Promise<void> {
  const more = { ms: attackMs, ...(agent === undefined ? {} : { agent }) }
  const headers = { 'content-type': 'application/json' }
  const [health, call] = await Promise.all([
    exchange(`${url}/healthz`, { method: 'GET', ...more }),
    exchange(`${url}/mcp/good/tool@1.0.0`, { method: 'POST', headers, body: '{}', ...more }),
  ])
  if (health.status !== 200) throw new Error(`/healthz responded with ${health.status}`)
  if (call.status !== 200) throw new Error(`another caller got ${call.status}: ${call.begin}`)
}

interface Probes {
  /** Rejects when another caller is not served. */
  readonly failed: Promise<never>
  longestMs(): number
  stop(): Promise<void>
}

function probing(url: string): Probes {
  const agent = new Agent({ keepAlive: true })
  let longestMs = 0
  let isOver = false
  const run = async (): Promise<void> => {
    while (!isOver) {
      const begun = performance.now()
      await probeOnce(url, agent)
      longestMs = Math.max(longestMs, performance.now() - begun)
      await new Promise((resolve) => setTimeout(resolve, probeMs))
    }
  }
  const running = run()
  return {
    failed: running.then(() => new Promise<never>(() => undefined)),
    longestMs: () => longestMs,
    async stop() {
      isOver = true
      await running.catch(() => undefined)
      agent.destroy()
    },
  }
}
