import type { ServerResponse } from 'node:http'
import { expect } from 'chai'
import { startTestGateway, type TestGateway } from '../../support/gateway.js'
import { TestIssuer } from '../../support/issuer.js'
import { startUpstream } from '../../support/upstream.js'

/** An upstream that responds to calls only when the test lets it. */
function holdingUpstream() {
  const waiting: ServerResponse[] = []
  let arrived = (): void => undefined
  return {
    waiting,
    response: (_call: unknown, response: ServerResponse): void => {
      waiting.push(response)
      arrived()
    },
    async until(count: number): Promise<void> {
      while (waiting.length < count) await new Promise<void>((resolve) => (arrived = resolve))
    },
    release(): void {
      for (const response of waiting.splice(0)) response.end('{}')
    },
  }
}

type HoldingUpstream = ReturnType<typeof holdingUpstream>

async function withGateway(
  most: number,
  body: (gateway: TestGateway, room: HoldingUpstream, issuer: TestIssuer) => Promise<void>,
): Promise<void> {
  const room = holdingUpstream()
  await using issuer = await TestIssuer.start()
  await using upstream = await startUpstream(room.response)
  await using gateway = await startTestGateway({
    targets: { files: upstream.url },
    server: { maxCallsPerTenant: most },
    authn: { oidc: issuer.oidc, allowUnauthenticated: true },
  })
  await body(gateway, room, issuer)
}

const call = (gateway: TestGateway, headers = {}, body: unknown = {}): Promise<Response> =>
  gateway.invoke('/mcp/files/read@1', body, headers)

describe('calls of a tenant in flight', () => {
  it('beyond the cap are refused with a retry-after header, and recorded', () =>
    withGateway(2, async (gateway, room) => {
      const running = [call(gateway), call(gateway)]
      await room.until(2)
      const refused = await call(gateway)
      expect(refused.status).to.equal(429)
      expect(refused.headers.get('retry-after')).to.equal('1')
      expect(await refused.json()).to.include({ error: 'RATE_LIMITED', sent: false })
      expect(gateway.records()).to.have.length(1)
      expect(gateway.records()[0]).to.include({ error: 'RATE_LIMITED', tenant: 'acme' })
      room.release()
      expect((await Promise.all(running)).map(({ status }) => status)).to.deep.equal([200, 200])
    }))

  it('are counted exactly if a hundred arrive at once, and no longer counted after their end', () =>
    withGateway(10, async (gateway, room) => {
      for (let round = 0; round < 3; round++) {
        const responses = Array.from({ length: 100 }, () => call(gateway))
        const refusals: Response[] = []
        let tell = (): void => undefined
        const ninety = new Promise<void>((resolve) => (tell = resolve))
        for (const pending of responses) {
          void pending.then((response) => {
            if (response.status === 429) refusals.push(response)
            if (refusals.length === 90) tell()
          })
        }
        await ninety
        await room.until(10)
        expect(room.waiting).to.have.length(10)
        room.release()
        const statuses = (await Promise.all(responses)).map(({ status }) => status)
        expect(statuses.filter((status) => status === 200)).to.have.length(10)
      }
    }))

  it('of one tenant do not affect those of another', () =>
    withGateway(1, async (gateway, room, issuer) => {
      const as = async (org: string) => ({ authorization: `Bearer ${await issuer.sign({ org })}` })
      const running = [call(gateway, await as('one'))]
      await room.until(1)
      running.push(call(gateway, await as('two')))
      await room.until(2)
      expect((await call(gateway, await as('one'))).status).to.equal(429)
      room.release()
      expect((await Promise.all(running)).map(({ status }) => status)).to.deep.equal([200, 200])
    }))

  it('are counted only if their caller is authenticated', () =>
    withGateway(1, async (gateway, room) => {
      const running = call(gateway)
      await room.until(1)
      const stranger = await call(gateway, { authorization: 'Bearer none' })
      expect(stranger.status).to.equal(401)
      room.release()
      expect((await running).status).to.equal(200)
    }))

  const endings: readonly (readonly [
    title: string,
    run: (gateway: TestGateway, room: HoldingUpstream) => Promise<unknown>,
  ])[] = [
    ['it cannot be read', (gateway) => call(gateway, {}, '{"a":')],
    ['its upstream is unknown', (gateway) => gateway.invoke('/mcp/nosuch/read@1')],
    [
      'its upstream hangs up',
      async (gateway, room) => {
        const running = call(gateway)
        await room.until(1)
        room.waiting.pop()?.destroy()
        await running
      },
    ],
    [
      'its response breaks off',
      async (gateway, room) => {
        const running = call(gateway)
        await room.until(1)
        const response = room.waiting.pop()
        response?.writeHead(200, { 'content-type': 'text/event-stream' })
        response?.write('data: 1\n\n')
        response?.destroy()
        await running.then(
          (response) => response.text(),
          () => undefined,
        )
      },
    ],
  ]
  for (const [title, run] of endings) {
    it(`are no longer counted when ${title}`, () =>
      withGateway(1, async (gateway, room) => {
        for (let i = 0; i < 3; i++) await run(gateway, room)
        const next = call(gateway)
        await room.until(1)
        room.release()
        expect((await next).status).to.equal(200)
      }))
  }

  it('are still counted after a reload', () =>
    withGateway(1, async (gateway, room) => {
      const running = call(gateway)
      await room.until(1)
      await gateway.handle.reload({})
      expect((await call(gateway)).status).to.equal(429)
      room.release()
      expect((await running).status).to.equal(200)
    }))

  it('are refused over MCP too', () =>
    withGateway(1, async (gateway, room) => {
      const running = call(gateway)
      await room.until(1)
      const ping = { jsonrpc: '2.0', id: 7, method: 'ping' }
      const response = await gateway.invoke('/mcp/files', ping, { accept: 'application/json' })
      const body = (await response.json()) as { error: string; data?: object }
      expect(JSON.stringify(body)).to.contain('RATE_LIMITED').and.to.contain('"sent":false')
      room.release()
      await running
    }))
})
