import { type Call, type CallRequest, denied } from '@svc/core'
import { expect } from 'chai'
import { AccessChecks } from 'svc-sdk/internal/mcp/access-checks'
import { outcomeOf, type ResponseContext } from 'svc-sdk/internal/mcp/answer'
import { mcpExchange, openExchange } from 'svc-sdk/internal/mcp/exchange'
import { type LearningCaches, ResponseFilter } from 'svc-sdk/internal/mcp/response-filter'
import { messageResponse } from 'svc-sdk/internal/mcp/servers'
import { SessionBinding } from 'svc-sdk/internal/mcp/session-binding'
import { controlOf } from '../../support/call.js'
import type { TestProxy } from '../../support/mcp-proxy.js'
import { callEcho, json, result, withProxy } from '../../support/mcp-server.js'

const sessions = new SessionBinding('a key of the test that is long enough')
/** A tool call that names no task uses no other cache. */
const caches = { sessions: () => sessions } as LearningCaches

/** What `look` finds in a call of the tool before it runs; the version of the server is known by then. */
async function inCall<T>(proxy: TestProxy, look: (call: Call) => T): Promise<T> {
  await proxy.ask({ body: callEcho })
  const found: T[] = []
  await proxy.ask({ body: callEcho, prepare: (call) => found.push(look(call)) })
  return found[0] as T
}

const withEcho = (use: (proxy: TestProxy) => Promise<void>): Promise<unknown> =>
  withProxy((message, response) => json(response, result(message)), use)

describe('a tool call over MCP that has nothing to wait for', () => {
  it('is read without a promise', async () => {
    await withEcho(async (proxy) => {
      const [read] = await inCall(proxy, (call) => [
        proxy.proxy.read(controlOf(call), call.need(mcpExchange), Buffer.from(JSON.stringify(callEcho))),
      ])
      expect(read).to.deep.include({ name: 'echo', version: '2.0.0' })
    })
  })

  it('is refused without a promise where its session is of another caller', async () => {
    await withEcho(async (proxy) => {
      const [refused] = await inCall(proxy, (call) => {
        const { server, upstream } = call.need(mcpExchange)
        const headers = { 'mcp-session-id': 's1' }
        const exchange = openExchange({ method: 'POST', headers, server, upstream, sessionTag: 'forged' })
        return [new AccessChecks(caches).refusalOf(call, exchange, {} as CallRequest)]
      })
      expect(refused).to.deep.equal(
        denied('TARGET_NOT_FOUND', 'There is no such session of this caller; begin a new one.'),
      )
    })
  })

  it('has its outcome without a promise once a whole answer has come', async () => {
    await withEcho(async (proxy) => {
      const [outcome] = await inCall(proxy, (call) => {
        const request = { kind: 'tool', name: 'echo', method: 'tools/call' } as const
        const review = new ResponseFilter(controlOf(call), request, call.need(mcpExchange), caches)
        const response = messageResponse({ message: { jsonrpc: '2.0', id: 1, result: { content: [] } } })
        const context = { method: 'POST', id: 1, review } as ResponseContext
        return [outcomeOf(response, context, { maxResponseBytes: 1000 })]
      })
      expect(outcome).to.include({ kind: 'completed', status: 200 })
    })
  })
})
