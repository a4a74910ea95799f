import type { ReferenceRule } from '@svc/core'
import { sha256Hex, stringifyJson } from '@svc/core/json'
import { expect } from 'chai'
import { TestProxy } from '../../support/mcp-proxy.js'
import {
  callEcho,
  event,
  events,
  info,
  initialize,
  json,
  type Message,
  result,
  withProxy,
} from '../../support/mcp-server.js'
import { startUpstream } from '../../support/upstream.js'

describe('a call over MCP', () => {
  it('goes to the target as the parsed message, encoded again, with the MCP headers and without the credentials', async () => {
    const headers = {
      'mcp-session-id': 's1',
      'mcp-protocol-version': '2025-11-25',
      authorization: 'Bearer secret',
      cookie: 'a=b',
      'x-other': '1',
    }
    const body =
      '{ "id":1,  "method":"tools/call","jsonrpc":"2.0","params":{"name":"echo","arguments":{"a":1.0,"region":"eu"}}}'
    await withProxy(
      (message, response) => json(response, result(message)),
      async (proxy, calls) => {
        const { outcome, settlements, request } = await proxy.ask({ headers, body })
        expect(outcome).to.include({ kind: 'completed', status: 200 })
        expect(request).to.deep.include({
          kind: 'tool',
          method: 'tools/call',
          name: 'echo',
          version: '2.0.0',
          reference: 'mcp://files/echo@2.0.0',
          bytes: body.length,
        })
        expect(stringifyJson(request?.args)).to.equal('{"a":1.0,"region":"eu"}')
        const sent = calls.at(-1)
        expect(sent).to.include({ method: 'POST', path: '/mcp?tenant=1' })
        expect(sent?.body).to.equal(
          '{"id":1,"method":"tools/call","jsonrpc":"2.0","params":{"name":"echo","arguments":{"a":1.0,"region":"eu"}}}',
        )
        expect(sent?.headers).to.include({
          'mcp-session-id': 's1',
          'mcp-protocol-version': '2025-11-25',
          accept: 'application/json, text/event-stream',
          'content-type': 'application/json',
        })
        expect(sent?.headers).to.not.have.any.keys('authorization', 'cookie', 'x-other')
        expect(settlements).to.have.length(1)
        expect(settlements[0]).to.include({
          digest: sha256Hex('{"content":[{"text":"hi","type":"text"}]}'),
          error: null,
        })
      },
    )
  })

  it("requests the server's version once, before the first guarded call, and ends the session", async () => {
    await using upstream = await startUpstream((call, response) => {
      const message = JSON.parse(call.body || '{}') as Message
      response.setHeader('mcp-session-id', 'probe')
      if (message['method'] === 'initialize') events(response, ': hi\n', event(result(message, info)))
      else if (call.method === 'DELETE') response.writeHead(204).end()
      else json(response, result(message))
    })
    const proxy = new TestProxy(upstream.url)
    const [first] = await Promise.all([proxy.ask({ body: callEcho }), proxy.ask({ body: callEcho })])
    expect(first.call.target).to.include({ serverVersion: '2.0.0', toolVersion: '2.0.0', tool: 'echo' })
    const asked = upstream.calls.map(
      ({ method, body }) => `${method} ${/"method":"([^"]*)"/.exec(body)?.[1] ?? ''}`,
    )
    expect(asked).to.deep.equal(['POST initialize', 'DELETE ', 'POST tools/call', 'POST tools/call'])
    expect(upstream.calls[1]?.headers).to.include({ 'mcp-session-id': 'probe' })
    await proxy[Symbol.asyncDispose]()
  })

  it('learns the version from a handshake that passes through', async () => {
    await withProxy(
      (message, response) => json(response, result(message)),
      async (proxy, calls) => {
        const { outcome, call } = await proxy.ask({ body: initialize })
        expect(outcome.kind).to.equal('completed')
        expect(call.target).to.include({
          serverVersion: '2.0.0',
          mcpMethod: 'initialize',
          tool: 'initialize',
        })
        const { request } = await proxy.ask({ body: callEcho })
        expect(request?.reference).to.equal('mcp://files/echo@2.0.0')
        expect(calls).to.have.length(2)
      },
    )
  })

  it('requests the version by server/discover without a handshake, and calls a server without a version unversioned', async () => {
    for (const [discovered, version] of [
      [{ _meta: { 'io.modelcontextprotocol/serverInfo': { name: 's', version: '7' } } }, '7'],
      [{}, 'unversioned'],
    ] as const) {
      await using upstream = await startUpstream((call, response) => {
        const message = JSON.parse(call.body) as Message
        if (message['method'] === 'server/discover') json(response, result(message, discovered))
        else if (message['method'] === 'tools/call') json(response, result(message))
        else json(response, { jsonrpc: '2.0', error: { code: -32601, message: 'no' } }, 404)
      })
      const proxy = new TestProxy(upstream.url)
      const { request } = await proxy.ask({ body: callEcho })
      expect(request?.version).to.equal(version)
      await proxy[Symbol.asyncDispose]()
    }
  })

  it('has its server as its reference if it is unguarded, with an encoded name', async () => {
    await withProxy(
      (message, response) => json(response, result(message, {})),
      async (proxy) => {
        const list = { jsonrpc: '2.0', id: 1, method: 'tools/list' }
        for (const [server, reference] of [
          ['files', 'mcp://files/'],
          ['files/echo@1', 'mcp://files%2Fecho%401/'],
        ] as const) {
          const { request } = await proxy.ask({ server, body: list })
          expect(request).to.include({ kind: 'protocol', name: 'tools/list', reference })
        }
      },
    )
  })

  it('takes its idempotency key from `_meta`, and is refused if the header has another', async () => {
    const body = { ...callEcho, params: { ...callEcho.params, _meta: { 'svc/idempotency-key': 'k1' } } }
    await withProxy(
      (message, response) => json(response, result(message)),
      async (proxy, calls) => {
        const { request } = await proxy.ask({ body })
        expect(request?.idempotencyKey).to.equal('k1')
        expect(calls.at(-1)?.headers['idempotency-key']).to.equal('k1')
        const refused = await proxy.response({ body, headers: { 'idempotency-key': 'k2' } })
        expect(refused.outcome).to.include({ kind: 'denied', code: 'BAD_REQUEST' })
        expect(refused.json()).to.have.nested.property('error.code', -32602)
      },
    )
  })

  it('gets the status alone if the server only accepts it', async () => {
    await withProxy(
      (_message, response) =>
        json(response, { jsonrpc: '2.0', id: 9, result: { tools: [{ name: 'drop' }] } }, 202),
      async (proxy) => {
        const accepted = await proxy.response({
          body: { jsonrpc: '2.0', method: 'notifications/initialized' },
        })
        expect(accepted).to.include({ status: 202, text: '' })
        const response = await proxy.response({
          body: { jsonrpc: '2.0', id: 4, result: { action: 'accept' } },
        })
        expect(response).to.include({ status: 202, text: '' })
        expect(response.call.target).to.include({ tool: 'response', mcpMethod: null })
      },
    )
  })

  it('passes with its headers in 2026-07-28, and so does a result that asks for input', async () => {
    const headers = {
      'mcp-protocol-version': '2026-07-28',
      'mcp-method': 'tools/call',
      'mcp-name': '=?base64?ZWNobw==?=',
    }
    const _meta = { 'io.modelcontextprotocol/protocolVersion': '2026-07-28' }
    const inputRequired = { resultType: 'input_required', inputRequests: { a: {} }, requestState: 'x' }
    await withProxy(
      (message, response) => json(response, result(message, inputRequired)),
      async (proxy, calls) => {
        const params = { ...callEcho.params, inputResponses: { a: {} }, requestState: 'w', _meta }
        const response = await proxy.response({ body: { ...callEcho, params }, headers })
        expect(response.json()).to.deep.equal({ jsonrpc: '2.0', id: 1, result: inputRequired })
        expect(response.settlements[0]).to.include({ error: null })
        expect(calls.at(-1)?.headers).to.include(headers)
        expect(JSON.parse(calls.at(-1)?.body ?? '')).to.deep.equal({ ...callEcho, params })
      },
    )
  })

  it('may subscribe only to resources that the caller may use', async () => {
    const listen = (uri: string) => ({
      jsonrpc: '2.0',
      id: 1,
      method: 'subscriptions/listen',
      params: {
        notifications: { resourceSubscriptions: [uri] },
        _meta: { 'io.modelcontextprotocol/protocolVersion': '2026-07-28' },
      },
    })
    const headers = { 'mcp-protocol-version': '2026-07-28', 'mcp-method': 'subscriptions/listen' }
    const onlyA: ReferenceRule = (reference) =>
      reference.includes('a:') ? undefined : { reason: 'tool_not_in_allowlist', stage: 'test' }
    await withProxy(
      (message, response) =>
        events(response, event({ jsonrpc: '2.0', method: 'notifications/x' }), event(result(message, {}))),
      async (proxy) => {
        const allowed = await proxy.response({ body: listen('a://1'), headers, rules: [onlyA] })
        expect(allowed.text).to.include('notifications/x')
        const refused = await proxy.response({ body: listen('b://1'), headers, rules: [onlyA] })
        expect(refused.json()).to.have.nested.property('error.code', 403)
      },
    )
  })
})
