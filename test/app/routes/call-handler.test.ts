import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { type Call, callRequest, isRefusal } from '@svc/core'
import { Pipeline } from '@svc/core/pipeline'
import { expect } from 'chai'
import { TenantCallLimit, TenantConnections } from 'svc-sdk/internal/budget/use-limit'
import { HttpClientExchange } from 'svc-sdk/internal/http/client-exchange'
import { ActivePolicy } from 'svc-sdk/internal/policy/active-policy'
import { hostSchema } from 'svc-sdk/internal/policy/config'
import { CallHandler } from 'svc-sdk/internal/routes/call-handler'
import type { CallEndpoint } from 'svc-sdk/internal/routes/endpoints'
import { container as root } from 'tsyringe'
import { keepingLogger } from '../../support/logger.js'

const request = callRequest({
  kind: 'tool',
  method: null,
  server: 'files',
  name: 'read',
  version: '1',
  args: {},
  idempotencyKey: null,
})

const endpoint: CallEndpoint = {
  protocol: 'mcp',
  headers: {},
  target: { server: 'files', serverVersion: '1', tool: 'read', toolVersion: '1', mcpMethod: null },
  read: () => request,
  dispatch: () => Promise.reject(new Error('not sent')),
  encode: () => ({ status: 500, headers: {}, body: '' }),
}

describe('a call whose response has begun', () => {
  it('is refused as rate limited if its tenant has too many connections', async () => {
    const logger = keepingLogger()
    const limit = new TenantCallLimit(10, 'calls')
    let id = 0
    const ids = {
      traceId: () => String(++id).padStart(32, '0'),
      spanId: () => String(++id).padStart(16, '0'),
    }
    const handler = new CallHandler({
      clock: { now: () => 0, monotonic: () => 0 },
      ids,
      logger,
      limitedLogger: logger,
      tenant: 'acme',
      tenantCallLimit: limit,
      tenantStreamLimit: limit,
      tenantConnections: new TenantConnections(0),
      maxBodyBytes: 1_048_576,
      policies: {
        get current() {
          return policy
        },
        isDraining: false,
      },
    })
    const errors: unknown[] = []
    const stage = {
      async handle(call: Call) {
        await Promise.resolve(call.request()).catch((error: unknown) => errors.push(error))
        return { kind: 'completed', status: 200, headers: {}, body: new Uint8Array() } as const
      },
    }
    const host = hostSchema.parse({ tenant: 'acme', port: 0, targets: {} })
    const pipeline = new Pipeline([{ name: 'probe', stage }], () => Promise.reject(new Error('not sent')))
    const policy = new ActivePolicy({ pipeline, container: root }, host)
    const server = createServer(async (message, response) => {
      response.writeHead(200).flushHeaders()
      await handler.run(new HttpClientExchange(message, response), endpoint, policy, () => undefined)
      response.end()
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const { port } = server.address() as AddressInfo
    await (await fetch(`http://127.0.0.1:${port}/`)).text()
    server.closeAllConnections()
    await new Promise((resolve) => server.close(resolve))
    expect(errors.map((error) => (isRefusal(error) ? error.code : String(error)))).to.deep.equal([
      'RATE_LIMITED',
    ])
  })
})
