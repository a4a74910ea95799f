import { expect } from 'chai'
import { GatewayBuilder } from 'svc-sdk/internal/gateway/builder'
import { LineExchange } from 'svc-sdk/internal/stdio/gateway/endpoint-session'
import { LineGateway } from 'svc-sdk/internal/stdio/gateway/serve'
import { recordingTo } from '../../../support/gateway.js'
import { rejectionOf } from '../../../support/rejection.js'

describe('the gateway of one client over stdio', () => {
  function startGateway(name: string | undefined, targets: Record<string, string> = {}): LineGateway {
    const settings = recordingTo({ append: async () => undefined })
    const quotas = { adapter: 'memory' } as const
    const open = { authn: { allowUnauthenticated: true }, entitlements: 'open' } as const
    return new LineGateway(
      new GatewayBuilder({ port: 0, tenant: 'acme', targets, quotas, ...open, ...settings }),
      name,
    )
  }

  for (const name of [undefined, 'notes']) {
    it(`asks for initialize or a revision, and for no header, at ${name ?? 'several servers'}`, async () => {
      const gateway = startGateway(name, { notes: 'http://127.0.0.1:1/mcp' })
      await gateway.ready()
      const { signal } = new AbortController()
      const value = { jsonrpc: '2.0', id: 1, method: 'tools/list' }
      const body = { value, bytes: 1 }
      const exchange = new LineExchange({
        method: 'POST',
        headers: {},
        body,
        signal,
        onEvent: () => undefined,
      })
      await gateway.send(exchange, 'POST')
      await gateway.close()
      const { error } = JSON.parse(String(exchange.responseBody))
      expect(error).to.include({ code: -32602 })
      expect(error.message).to.include('initialize').and.not.include('Mcp-Session-Id')
    })
  }

  it('does not show internal errors to its client', async () => {
    const gateway = startGateway(undefined)
    await gateway.ready()
    const { signal } = new AbortController()
    const exchange = new LineExchange({ method: 'GET', headers: {}, signal, onEvent: () => undefined })
    exchange.whole = () => {
      throw new Error('a path of this machine')
    }
    const error = await rejectionOf(gateway.send(exchange, 'GET'))
    await gateway.close()
    expect(error).to.be.an('error').with.property('message', 'The response was interrupted.')
  })
})
