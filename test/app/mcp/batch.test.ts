import { expect } from 'chai'
import { withGateway } from '../../support/mcp-gateway.js'
import { callEcho, event, events, type HttpResponse, json, result } from '../../support/mcp-server.js'
import { signalled } from '../../support/signalled.js'

const call = (id: number, name: string) => ({ ...callEcho, id, params: { name, arguments: { id } } })
const notification = { jsonrpc: '2.0', method: 'notifications/roots/list_changed' }
const fine: HttpResponse = (message, response) => {
  if ('id' in message) json(response, result(message, { of: message['id'] }))
  else response.writeHead(202).end()
}
const onlyEcho = {
  entitlements: { default_plan: 'p', plans: { p: { allowlist: ['files/echo'] } }, tenants: {} },
}

describe('a batch of 2025-03-26', () => {
  it('is a call and a record for each message, and one HTTP response', () =>
    withGateway(
      fine,
      async ({ post, gateway, calls }) => {
        const response = await post([
          call(1, 'echo'),
          notification,
          call(2, 'drop'),
          { ...call(3, 'echo'), id: 'c' },
        ])
        expect(response.status).to.equal(200)
        expect(response.headers.get('content-type')).to.equal('application/json')
        const [first, second, third, ...more] = (await response.json()) as object[]
        expect(first).to.deep.equal({ jsonrpc: '2.0', id: 1, result: { of: 1 } })
        expect(second).to.deep.include({ jsonrpc: '2.0', id: 2 }).and.have.nested.property('error.code', 403)
        expect(third).to.deep.equal({ jsonrpc: '2.0', id: 'c', result: { of: 'c' } })
        expect(more).to.deep.equal([])
        expect(calls.filter(({ body }) => body.includes('drop'))).to.deep.equal([])
        const records = gateway.records().map(({ tool, status }) => `${tool} ${status}`)
        expect(records.sort()).to.deep.equal([
          'drop@2.0.0 error',
          'echo@2.0.0 ok',
          'echo@2.0.0 ok',
          'notifications/roots/list_changed@2.0.0 ok',
        ])
      },
      onlyEcho,
    ))

  it('gets an array for one message, and 202 for notifications alone', () =>
    withGateway(fine, async ({ post }) => {
      const one = await post([call(1, 'echo')], { 'mcp-protocol-version': '2025-03-26' })
      expect(await one.json()).to.deep.equal([{ jsonrpc: '2.0', id: 1, result: { of: 1 } }])
      const none = await post([notification, notification])
      expect(none.status).to.equal(202)
      expect(await none.text()).to.equal('')
    }))

  it('takes the responses from streams of events, and runs the messages at the same time', async () => {
    const second = signalled()
    await withGateway(
      (message, response) => {
        const progress = event({ jsonrpc: '2.0', method: 'notifications/progress', params: {} })
        if (message['id'] === 2) {
          second.resolve()
          events(response, progress, event(result(message, { of: 2 })))
          return
        }
        response.writeHead(200, { 'content-type': 'text/event-stream' })
        response.write(progress)
        void second.happened.then(() => response.end(event(result(message, { of: 1 }))))
      },
      async ({ post, gateway }) => {
        const response = await post([call(1, 'echo'), call(2, 'echo')])
        expect(await response.json()).to.deep.equal([
          { jsonrpc: '2.0', id: 1, result: { of: 1 } },
          { jsonrpc: '2.0', id: 2, result: { of: 2 } },
        ])
        expect(gateway.records().map(({ status }) => status)).to.deep.equal(['ok', 'ok'])
      },
    )
  })

  it('has no stream to resume: a message whose stream breaks off gets an error', () =>
    withGateway(
      (_message, response) => events(response, 'id: 1\ndata:\n\n'),
      async ({ post, gateway }) => {
        const begun = await post({ jsonrpc: '2.0', id: 0, method: 'initialize', params: {} })
        await begun.text()
        const session = { 'mcp-session-id': String(begun.headers.get('mcp-session-id')) }
        const [first, second] = (await (
          await post([call(1, 'echo'), call(2, 'echo')], session)
        ).json()) as object[]
        for (const each of [first, second]) expect(each).to.have.nested.property('error.code', 502)
        const codes = gateway
          .records()
          .flatMap(({ mcp_method, error }) => (mcp_method === 'tools/call' ? [error] : []))
        expect(codes).to.deep.equal(['UPSTREAM_UNREACHABLE', 'UPSTREAM_UNREACHABLE'])
      },
      {},
      's1',
    ))

  it('gets 404 if its session has ended', () =>
    withGateway(fine, async ({ post }) => {
      const response = await post([call(1, 'echo'), call(2, 'echo')], { 'mcp-session-id': 'gone' })
      expect(response.status).to.equal(404)
      expect(await response.json()).to.have.nested.property('error.code', 404)
    }))

  for (const [what, body, headers] of [
    [
      'with an initialize request',
      [callEcho, { jsonrpc: '2.0', id: 2, method: 'initialize', params: {} }],
      {},
    ],
    ['of no messages', [], {}],
    ['of too many messages', Array.from({ length: 51 }, (_, id) => call(id, 'echo')), {}],
    ['with one idempotency key for all', [callEcho, callEcho], { 'idempotency-key': 'k' }],
    ['of a later revision', [callEcho], { 'mcp-protocol-version': '2025-06-18' }],
  ] as const) {
    it(`is refused ${what}, and no part of it is sent`, () =>
      withGateway(fine, async ({ post, calls, gateway }) => {
        const response = await post(body, headers)
        expect(response.status).to.equal(400)
        expect(await response.json())
          .to.deep.include({ id: null })
          .and.have.nested.property('error.code', -32600)
        expect(calls).to.deep.equal([])
        expect(gateway.records()).to.have.length(1)
      }))
  }

  it('gets an error with the id null for a part that is not a message, and responses to the others', () =>
    withGateway(fine, async ({ post }) => {
      const response = await post([7, call(2, 'echo')])
      const [refused, responded] = (await response.json()) as object[]
      expect(refused).to.deep.include({ id: null }).and.have.nested.property('error.code', -32600)
      expect(responded).to.deep.equal({ jsonrpc: '2.0', id: 2, result: { of: 2 } })
    }))
})
