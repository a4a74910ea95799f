import { expect } from 'chai'
import { GatewayBuilder } from 'svc-sdk/internal/gateway/builder'
import { LineExchange } from 'svc-sdk/internal/stdio-gateway/line-exchange'
import { LineGateway } from 'svc-sdk/internal/stdio-gateway/line-gateway'
import { recordingTo } from '../../support/gateway.js'
import { rejectionOf } from '../../support/rejection.js'

describe('the gateway of one client', () => {
  it('does not tell its client what failed inside', async () => {
    const settings = recordingTo({ append: async () => undefined })
    const gateway = new LineGateway(
      new GatewayBuilder({
        port: 0,
        tenant: 'acme',
        targets: {},
        quotas: { adapter: 'memory' },
        ...settings,
      }),
      undefined,
    )
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
