import { Agent, request } from 'node:http'
import { expect } from 'chai'
import { startTestGateway, type TestGateway } from '../../support/gateway.js'
import { TestIssuer } from '../../support/issuer.js'
import { ofSuite } from '../../support/parts.js'
import { startUpstream } from '../../support/upstream.js'

/** A client whose calls share one connection. */
class Client implements Disposable {
  readonly #agent = new Agent({ keepAlive: true, maxSockets: 1 })

  constructor(readonly gateway: TestGateway) {}

  call(token: string): Promise<{ status: number | undefined; connection: string | undefined }> {
    return new Promise((resolve, reject) => {
      const sent = request(
        `${this.gateway.url}/mcp/files/read@1`,
        {
          method: 'POST',
          agent: this.#agent,
          headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
        },
        (response) => {
          response.resume()
          response.on('end', () =>
            resolve({ status: response.statusCode, connection: response.headers.connection }),
          )
        },
      )
      sent.on('error', reject)
      sent.end('{}')
    })
  }

  /** Resolves once the connection has closed on this side. */
  async close(): Promise<void> {
    const sockets = Object.values(this.#agent.freeSockets).flatMap((free) => free ?? [])
    await Promise.all(
      sockets.map((socket) => new Promise((resolve) => socket.once('close', resolve).destroy())),
    )
  }

  [Symbol.dispose](): void {
    this.#agent.destroy()
  }
}

describe('connections of a tenant', () => {
  const issuer = ofSuite(() => TestIssuer.start())

  async function withGateway(
    server: object,
    body: (gateway: TestGateway, one: string, two: string) => Promise<void>,
  ): Promise<void> {
    await using upstream = await startUpstream((_call, response) => void response.end('{}'))
    await using gateway = await startTestGateway({
      targets: { files: upstream.url },
      server: { maxConnectionsPerTenant: 1, ...server },
      authn: { oidc: issuer.oidc },
    })
    await body(gateway, await issuer.sign({ org: 'one' }), await issuer.sign({ org: 'two' }))
  }

  it('beyond the cap are refused, recorded and closed; the others stay open', () =>
    withGateway({}, async (gateway, one) => {
      using first = new Client(gateway)
      using second = new Client(gateway)
      expect((await first.call(one)).status).to.equal(200)
      expect(await second.call(one)).to.deep.equal({ status: 429, connection: 'close' })
      expect(gateway.records().at(-1)).to.include({ error: 'RATE_LIMITED', tenant: 'one' })
      expect((await first.call(one)).status).to.equal(200)
    }))

  it('are the connections on which it made calls, apart from those of another tenant', () =>
    withGateway({}, async (gateway, one, two) => {
      using first = new Client(gateway)
      using second = new Client(gateway)
      expect((await first.call(one)).status).to.equal(200)
      expect((await second.call(two)).status).to.equal(200)
      expect((await second.call(one)).status).to.equal(429)
    }))

  it('are no longer counted after they have closed', () =>
    withGateway({}, async (gateway, one) => {
      using first = new Client(gateway)
      expect((await first.call(one)).status).to.equal(200)
      await first.close()
      let status: number | undefined
      do {
        using next = new Client(gateway)
        ;({ status } = await next.call(one))
      } while (status === 429)
      expect(status).to.equal(200)
    }))

  it('are not counted for a trusted proxy', () =>
    withGateway({ trustedProxies: ['127.0.0.1'] }, async (gateway, one) => {
      using first = new Client(gateway)
      using second = new Client(gateway)
      expect((await first.call(one)).status).to.equal(200)
      expect((await second.call(one)).status).to.equal(200)
    }))
})
