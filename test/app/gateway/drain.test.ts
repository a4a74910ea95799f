import { connect, type Socket } from 'node:net'
import { definePlugin } from '@svc/core'
import { expect } from 'chai'
import { z } from 'zod'
import { startTestGateway } from '../../support/gateway.js'
import { heldUpstream } from '../../support/held-upstream.js'
import { rejectionOf } from '../../support/rejection.js'
import { signalled } from '../../support/signalled.js'
import { startUpstream } from '../../support/upstream.js'

/** A custom stage that holds calls until the test lets them pass. */
function holdingStage() {
  const { happened: opened, resolve: open } = signalled()
  const { happened: arrived, resolve: arrive } = signalled()
  const plugin = definePlugin({
    name: 'holding',
    version: '1.0.0',
    core: '^1.0.0',
    schema: z.strictObject({}).prefault({}),
    // The first stage after it reads the request.
    phase: 'authentication',
    create: () => ({
      async handle(_call, next) {
        arrive()
        await opened
        return next()
      },
    }),
  })
  return { plugin, arrived, open }
}

/** A connection whose request has begun, so that the gateway counts it as in use. */
async function begun(url: string, head: string): Promise<Socket> {
  const socket = connect(Number(new URL(url).port), '127.0.0.1')
  await new Promise((resolve) => socket.write(head, resolve))
  return socket
}

/** Sends the rest of the request and returns what comes back. */
async function finished(socket: Socket, rest: string): Promise<string> {
  socket.write(rest)
  const pieces: Buffer[] = []
  for await (const piece of socket) pieces.push(piece)
  return Buffer.concat(pieces).toString()
}

describe('drain', () => {
  it('completes calls in flight, refuses new ones and then closes', async () => {
    const held = heldUpstream()
    await using upstream = await startUpstream(held.response)
    await using gateway = await startTestGateway({ targets: { files: upstream.url } })
    const running = gateway.invoke('/mcp/files/slow@1')
    const heldResponse = await held.next()
    const closing = gateway.handle.close()
    heldResponse.end('done')
    const response = await running
    expect(await response.text()).to.equal('done')
    expect(response.headers.get('connection')).to.equal('close')
    await closing
    expect(gateway.records()).to.have.length(1)
    expect((await rejectionOf(gateway.invoke('/mcp/files/slow@1'))).message).to.contain('ECONNREFUSED')
  })

  it('ends a call that takes longer than the drain, and records it', async () => {
    const held = heldUpstream()
    await using upstream = await startUpstream(held.response)
    await using gateway = await startTestGateway({ targets: { files: upstream.url }, server: { drainMs: 0 } })
    const running = gateway.invoke('/mcp/files/slow@1')
    await held.next()
    await gateway.handle.close()
    const response = await running
    expect(response.status).to.equal(502)
    expect(await response.json()).to.include({ error: 'UPSTREAM_UNREACHABLE', sent: 'unknown' })
    expect(gateway.records()[0]).to.include({ error: 'UPSTREAM_UNREACHABLE', status: 'error' })
  })

  it('refuses a call that was accepted but not yet read when it began', async () => {
    await using upstream = await startUpstream()
    const { plugin, arrived, open } = holdingStage()
    await using gateway = await startTestGateway({ targets: { files: upstream.url }, plugins: [plugin] })
    const running = gateway.invoke('/mcp/files/read@1')
    await arrived
    const closing = gateway.handle.close()
    open()
    const response = await running
    expect(response.status).to.equal(503)
    expect(response.headers.get('retry-after')).to.equal('1')
    expect(await response.json()).to.include({ error: 'DRAINING', sent: false })
    await closing
    expect(upstream.calls).to.have.length(0)
    expect(gateway.records()[0]).to.include({ error: 'DRAINING' })
  })

  it('refuses and records requests that arrive meanwhile on open connections', async () => {
    const held = heldUpstream()
    await using upstream = await startUpstream(held.response)
    await using gateway = await startTestGateway({ targets: { files: upstream.url } })
    const late = await begun(gateway.url, 'POST /mcp/files/read@1 HTTP/1.1\r\n')
    const probe = await begun(gateway.url, 'GET /readyz HTTP/1.1\r\n')
    const running = gateway.invoke('/mcp/files/slow@1')
    const response = await held.next()
    const closing = gateway.handle.close()
    const responses = [
      await finished(late, 'host: 127.0.0.1\r\ncontent-length: 2\r\n\r\n{}'),
      await finished(probe, 'host: 127.0.0.1\r\n\r\n'),
    ]
    response.end('done')
    await running
    await closing
    for (const text of responses) {
      expect(text).to.match(/^HTTP\/1\.1 503 /)
      expect(text).to.match(/\r\nconnection: close\r\n/i)
      expect(text).to.contain('"error":"DRAINING"')
    }
    expect(gateway.records().map(({ error = 'none' }) => error)).to.have.members(['DRAINING', 'none'])
  })

  it('may be called twice', async () => {
    await using gateway = await startTestGateway({ targets: { files: 'http://127.0.0.1:1' } })
    await Promise.all([gateway.handle.close(), gateway.handle.close()])
  })

  it('records the outcome of a call whose caller disconnected', async () => {
    const held = heldUpstream()
    await using upstream = await startUpstream(held.response)
    await using gateway = await startTestGateway({ targets: { files: upstream.url } })
    const gone = new AbortController()
    const running = fetch(`${gateway.url}/mcp/files/slow@1`, {
      method: 'POST',
      body: '{}',
      signal: gone.signal,
    })
    const response = await held.next()
    gone.abort()
    expect((await rejectionOf(running)).name).to.equal('AbortError')
    response.end('done')
    await gateway.handle.close()
    expect(gateway.records()[0]).to.include({ tool: 'slow@1', status: 'ok' })
  })
})
