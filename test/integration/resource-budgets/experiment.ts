// Sends every shape over every channel to a gateway with a small heap. It must live, serve its health and the calls of another
// tenant meanwhile, and give the memory back afterwards.
import { connect } from 'node:net'
import { fileURLToPath } from 'node:url'
import { TestIssuer } from '../../support/issuer.js'
import { type Channel, type ChannelName, channels } from './channels.js'
import { exchange, probing } from './exchange.js'
import { startHostileServer } from './hostile-server.js'
import { startMeasuredGateway } from './measured-gateway.js'
import { type Shape, type ShapeName, shapes } from './shapes.js'
import { pieceByPiece } from './writing.js'

export interface Case {
  readonly channel: ChannelName
  readonly shape: ShapeName
  /** The gateway searches what passes, by the protections of this preset. */
  readonly preset?: 'guard'
}

/** Every shape on every channel that has a place for it. */
export const allCases: readonly Case[] = (Object.keys(channels) as ChannelName[]).flatMap((channel) =>
  (Object.keys(shapes) as ShapeName[])
    .filter((shape) => (channels[channel] as Channel).places.includes(shapes[shape].place))
    .map((shape) => ({ channel, shape })),
)

export interface Outcome {
  /** HTTP status of each request of the attack; undefined if the response broke off before its head. */
  readonly statuses: readonly (number | undefined)[]
  /** The beginning of the last response. */
  readonly text: string
  /** The longest that `/healthz` took, in milliseconds: without an attack, and during it. */
  readonly idleMs: number
  readonly healthMs: number
  /** The longest turn of the event loop during the attack, in milliseconds, and at most its CPU time. */
  readonly turnMs: number
  /** Bytes that the gateway keeps of the attack. */
  readonly keptBytes: number
}

/** An attack that is not over by then has stalled. */
const attackMs = 20_000
/** The caller does not wait for the end of a flood, which may have none. */
const leaveMs = 2_000
const idleProbesMs = 300
/** Time in which the memory of an attack is released. */
const releaseMs = 3_000

/** Throws if the gateway dies, or does not serve another tenant. */
export async function attack(
  { channel, shape, preset }: Case,
  bytes: number,
  heapMb = 256,
): Promise<Outcome> {
  const { target, rpc, method, path, body, sessions = 0, concurrent = 1 }: Channel = channels[channel]
  const { place, times, pauseMs, text }: Shape = shapes[shape]
  await using server = await startHostileServer()
  await using issuer = await TestIssuer.start()
  await using gateway = await startMeasuredGateway(
    { targets: targetsOf(server.url, shape, bytes), oidc: issuer.oidc, preset },
    heapMb,
  )
  const { url } = gateway
  const other = await issuer.sign({ org: 'other', sub: 'bob' })
  const headers: Record<string, string> = {
    authorization: `Bearer ${await issuer.sign({ org: 'attacker', sub: 'eve' })}`,
    accept: method === 'GET' ? 'text/event-stream' : 'application/json, text/event-stream',
    'content-type': 'application/json',
  }
  // The first calls load code.
  await probed(idleProbesMs, () => wait(idleProbesMs))
  const idle = await probed(idleProbesMs, () => wait(idleProbesMs))
  if (path.startsWith('/mcp') && !path.includes('@') && rpc !== 'initialize') await begin()
  const { bytes: before } = await gateway.used()
  server.attack = { rpc, place, pauseMs, text: () => text(bytes) }
  const statuses: (number | undefined)[] = []
  let last = ''
  let id = 0
  const send = async (): Promise<void> => {
    id++
    const sent =
      body === undefined
        ? ''
        : isPair(body)
          ? aroundShape(body)
          : JSON.stringify({ ...body, ...('id' in body ? { id } : {}) })
    const leaving = place === 'lines' || target === 'stderr' ? { leaveMs } : {}
    const response = await exchange(`${url}${path}`, {
      method,
      headers,
      body: sent,
      pauseMs,
      ms: attackMs,
      ...leaving,
    })
    statuses.push(response.status)
    last = response.begin
  }
  const healthMs = await probed(0, async () => {
    if (place === 'headers') return sendHeaders(url, text(bytes))
    for (let time = 0; time < Math.max(times, sessions); time++) {
      if (sessions > 0) await begin()
      await Promise.all(Array.from({ length: concurrent }, send))
    }
  })
  const { turnMs, bytes: atOnce } = await gateway.used()
  let after = atOnce
  // Buffers are released by a thread of the engine, and connections close.
  for (let time = 0; time < releaseMs / 100 && after - before > maxKeptBytes; time++) {
    await wait(100)
    after = (await gateway.used()).bytes
  }
  // The memory that the gateway keeps after the attack.
  await probed(0, async () => undefined)
  return { statuses, text: last, idleMs: idle, healthMs, turnMs, keptBytes: after - before }

  /** The longest that `/healthz` took while `act` ran and `more` milliseconds after it. */
  async function probed(more: number, act: () => Promise<void>): Promise<number> {
    const probes = probing(url, other, attackMs)
    try {
      await Promise.race([act(), gateway.died, probes.failed])
      await Promise.race([wait(more), gateway.died, probes.failed])
    } finally {
      await probes.stop()
    }
    return probes.longestMs()
  }

  async function begin(): Promise<void> {
    delete headers['mcp-session-id']
    const { session } = await exchange(`${url}${path}`, {
      method: 'POST',
      headers,
      body: initialize,
      ms: attackMs,
    })
    if (session !== undefined) headers['mcp-session-id'] = session
  }

  function* aroundShape([open, close]: readonly [string, string]): Iterable<string> {
    yield open
    yield* text(bytes)
    yield close
  }
}

/** The errors in the outcome. */
export function violations({ turnMs, keptBytes }: Outcome, maxTurnMs = 250): string[] {
  // The time of `/healthz` depends on the load of the machine, but it is at least the longest turn.
  return [
    ...(turnMs > maxTurnMs ? [`/healthz waited for a turn of ${turnMs.toFixed(0)} ms`] : []),
    ...(keptBytes > maxKeptBytes ? [`${(keptBytes / 1_048_576).toFixed(0)} MiB are kept`] : []),
  ]
}

/** An eighth of the heap. */
const maxKeptBytes = 32 * 1_048_576

const initialize = JSON.stringify({
  jsonrpc: '2.0',
  id: 0,
  method: 'initialize',
  params: { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'c', version: '1' } },
})

function targetsOf(url: (target: string) => string, shape: ShapeName, bytes: number): object {
  const script = fileURLToPath(new URL('./stdio-server.js', import.meta.url))
  const command = (output: string) => ({
    command: process.execPath,
    args: [script, output, shape, String(bytes)],
  })
  return {
    plain: url('plain'),
    tools: `mcp+${url('tools')}`,
    json: url('json'),
    events: url('events'),
    stream: url('stream'),
    federated: url('federated'),
    good: url('good'),
    stdio: command('stdout'),
    stderr: command('stderr'),
  }
}

function isPair(body: NonNullable<Channel['body']>): body is readonly [string, string] {
  return Array.isArray(body)
}

function wait(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms))
}

/** Resolves when the gateway has closed the connection. */
async function sendHeaders(url: string, lines: Iterable<string>): Promise<void> {
  const { hostname, port } = new URL(url)
  const socket = connect(Number(port), hostname)
  socket.on('error', () => undefined).resume()
  socket.write(`GET /healthz HTTP/1.1\r\nhost: ${hostname}:${port}\r\n`)
  await pieceByPiece(socket, lines, 0)
  socket.end('\r\n')
  if (!socket.closed) await new Promise((resolve) => socket.once('close', resolve))
}
