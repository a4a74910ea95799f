import { responseTimeLeft, type Verdict, verdict } from '@svc/core'
import { expect } from 'chai'
import { HttpServers } from 'svc-sdk/internal/mcp/http-servers'
import { responseTimeoutOf } from 'svc-sdk/internal/upstream/response-limits'
import { UndiciDispatcher } from 'svc-sdk/internal/upstream/undici'
import { makeCall } from '../../support/call.js'
import { startTestGateway } from '../../support/gateway.js'
import { json, result, serverOf } from '../../support/mcp-server.js'
import { rejectionOf } from '../../support/rejection.js'
import { startUpstream } from '../../support/upstream.js'

const verdictIn = (mode: Verdict['mode']): Verdict => ({ mode, effectOf: () => 'reported' })

const dispatcherOf = (headersTimeoutMs: number | undefined) =>
  new UndiciDispatcher({
    connectTimeoutMs: 1_000,
    headersTimeoutMs,
    idleTimeoutMs: undefined,
    wholeUpToBytes: 1_000,
  })

describe('the time that a server has until its response begins', () => {
  it('is an hour in observe mode and 300 s in the others, or what the policy lets a call take', () => {
    const call = makeCall()
    expect(responseTimeoutOf(call)).to.equal(300_000)
    call.set(verdict, verdictIn('enforce'))
    expect(responseTimeoutOf(call)).to.equal(300_000)
    const observed = makeCall()
    observed.set(verdict, verdictIn('observe'))
    expect(responseTimeoutOf(observed)).to.equal(3_600_000)
    // `max_duration_ms` ends the call, whether that is shorter or longer.
    observed.set(responseTimeLeft, () => 7_200_000)
    expect(responseTimeoutOf(observed)).to.equal(2_147_483_647)
    // In observe mode it ends none.
    const unlimited = makeCall()
    unlimited.set(verdict, verdictIn('observe'))
    unlimited.set(responseTimeLeft, () => undefined)
    expect(responseTimeoutOf(unlimited)).to.equal(3_600_000)
  })

  it('is that of the request, unless the policy sets it for all', async () => {
    await using upstream = await startUpstream(() => undefined)
    const send = async (headersTimeoutMs: number | undefined, responseTimeoutMs: number) => {
      const dispatcher = dispatcherOf(headersTimeoutMs)
      const { signal } = new AbortController()
      const request = {
        method: 'POST',
        path: '/',
        headers: {},
        body: '{}',
        signal,
        responseTimeoutMs,
      } as const
      const error = await rejectionOf(dispatcher.send(new URL(upstream.url), request, () => undefined))
      await dispatcher.close()
      return error
    }
    expect(await send(undefined, 50))
      .to.have.property('message')
      .that.contains('within 0.05 s')
    expect(await send(20, 60_000))
      .to.have.property('message')
      .that.contains('within 0.02 s')
  })

  it('is that of the request for an MCP server over HTTP too', async () => {
    await using upstream = await startUpstream(() => undefined)
    const dispatcher = dispatcherOf(undefined)
    const servers = new HttpServers(dispatcher, 60_000, Date)
    const { signal } = new AbortController()
    const message = { jsonrpc: '2.0', id: 1, method: 'ping' }
    const request = { method: 'POST', headers: {}, message, signal, responseTimeoutMs: 50 } as const
    const error = await rejectionOf(servers.send(new URL(upstream.url), request, () => undefined))
    await dispatcher.close()
    expect(error).to.have.property('message').that.contains('within 0.05 s')
  })

  it('is named with its key by the refusal', async () => {
    const { upstream } = await serverOf((message, response) => {
      if (message['method'] !== 'tools/call')
        json(response, result(message, { tools: [{ name: 'slow', inputSchema: {} }] }))
    })
    const body = { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'slow', arguments: {} } }
    try {
      await using gateway = await startTestGateway({
        targets: { files: `${upstream.url}/mcp` },
        server: { upstreamTimeoutMs: 50 },
      })
      const response = await gateway.invoke('/mcp/files', body, {
        accept: 'application/json, text/event-stream',
      })
      expect(await response.text()).to.contain('within 0.05 s; server.upstreamTimeoutMs raises that limit')
    } finally {
      await upstream[Symbol.asyncDispose]()
    }
  })
})
