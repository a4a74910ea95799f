import { once } from 'node:events'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { expect } from 'chai'
import { startTestGateway } from '../../support/gateway.js'
import { until } from '../../support/redis.js'
import { inBatches, StreamClient } from './client.js'
import { startMeasuredGateway } from './measured-gateway.js'
import { startStreamServer } from './server.js'

const MEBIBYTE = 2 ** 20

describe('MCP streams that are open at the same time', function () {
  this.timeout(120_000)

  it('take under 60 KB of memory each: 1,000', async () => {
    await using server = await startStreamServer()
    await using gateway = await startMeasuredGateway(server.url)
    using client = new StreamClient(gateway.url)
    const session = await client.begin()
    const open = (count: number) => inBatches(count, 100, () => client.open(session))
    // The first streams fill caches and warm up the code.
    for (const stream of await open(100)) stream.destroy()
    await until(async () => server.sockets() <= 1)
    const before = await gateway.held()
    const streams = await open(1_000)
    const after = await gateway.held()
    expect(server.sockets()).to.be.at.least(1_000)
    for (const measure of ['rss', 'heap'] as const)
      expect((after[measure] - before[measure]) / streams.length).to.be.below(60_000)
    for (const stream of streams) stream.destroy()
  })

  // `npm run bench -- --only streams` measures the delay.
  it('forward each event before the server sends the next one', async () => {
    const upstreams: ServerResponse[] = []
    await using server = await startStreamServer((response) => upstreams.push(response))
    await using gateway = await startTestGateway({ targets: { server: server.url } })
    using client = new StreamClient(`${gateway.url}/mcp/server`)
    const stream = await client.open(await client.begin())
    for (let events = 0; events < 100; events++) {
      upstreams.at(-1)?.write('data: {"jsonrpc":"2.0","method":"notifications/none"}\n\n')
      await once(stream, 'data')
    }
    stream.destroy()
  })

  it('are independent: a slow client stalls only its own upstream', async () => {
    const upstreams = new Map<string, ServerResponse>()
    await using server = await startStreamServer((response, session) => upstreams.set(session, response))
    await using gateway = await startMeasuredGateway(server.url)
    using client = new StreamClient(gateway.url)
    const begin = async (): Promise<readonly [IncomingMessage, EventSender]> => {
      const session = await client.begin()
      const stream = await client.open(session)
      return [stream, new EventSender([...upstreams.values()].at(-1))]
    }
    const [slow, ofSlow] = await begin()
    const [quick, ofQuick] = await begin()
    slow.pause()
    const sending = ofSlow.send(32 * MEBIBYTE)
    // The other stream passes more than all buffers hold, while this one does not move.
    const others = ofQuick.send(32 * MEBIBYTE)
    expect(await bytesOf(quick)).to.equal(firstComment.length + ofQuick.written)
    expect(ofQuick.written).to.be.at.least(32 * MEBIBYTE)
    expect(ofSlow.written).to.be.below(20 * MEBIBYTE)
    await others
    expect(await bytesOf(slow)).to.equal(firstComment.length + ofSlow.written)
    await sending
    expect(ofSlow.written).to.be.at.least(32 * MEBIBYTE)
  })
})

/** With it each stream begins, so that a proxy passes the headers on. */
const firstComment = ':\n\n'

const event = `data: ${JSON.stringify({
  jsonrpc: '2.0',
  method: 'notifications/message',
  params: { level: 'info', data: 'x'.repeat(64 * 1024) },
})}\n\n`

/** Sends events as fast as they are read, and ends. */
class EventSender {
  written = 0
  #response: ServerResponse

  constructor(response: ServerResponse | undefined) {
    if (response === undefined) throw new Error('the stream was not opened')
    this.#response = response
  }

  async send(bytes: number): Promise<void> {
    while (this.written < bytes) {
      this.written += event.length
      if (!this.#response.write(event)) await once(this.#response, 'drain')
    }
    this.#response.end()
  }
}

async function bytesOf(stream: IncomingMessage): Promise<number> {
  let bytes = 0
  for await (const piece of stream) bytes += (piece as Buffer).byteLength
  return bytes
}
