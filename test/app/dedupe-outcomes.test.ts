import type { ServerResponse } from 'node:http'
import { expect } from 'chai'
import { until } from '../support/redis.js'
import { dedupeRig, errorOf, key, READ } from './dedupe-rig.js'

describe('calls with an idempotency key', () => {
  const rig = dedupeRig()

  describe('whose first call was not sent', () => {
    it('run when the upstream can be reached again', async () => {
      await using gateway = await rig.start({}, { targets: { files: 'http://127.0.0.1:1' } })
      const failed = await gateway.invoke(READ, {}, key)
      expect(await failed.json()).to.include({ error: 'UPSTREAM_UNREACHABLE', sent: false })
      await gateway.handle.reload({ targets: { files: rig.upstream.url }, dedupe: { timeoutMs: 5_000 } })
      expect((await gateway.invoke(READ, {}, key)).headers.get('x-dedupe')).to.equal('first')
    })

    it('run when the limit that refused the first call allows them', async () => {
      const limited = (calls_per_day: number) => ({
        entitlements: {
          default_plan: 'free',
          plans: { free: { allowlist: ['*'], calls_per_day } },
          tenants: {},
        },
        dedupe: { timeoutMs: 5_000 },
      })
      await using gateway = await rig.start({}, limited(0))
      expect(await errorOf(await gateway.invoke(READ, {}, key))).to.equal('QUOTA_EXCEEDED')
      await gateway.handle.reload(limited(1))
      expect((await gateway.invoke(READ, {}, key)).headers.get('x-dedupe')).to.equal('first')
      const replay = await gateway.invoke(READ, {}, key)
      // A replay is not counted by quotas, and has no header about them.
      expect(replay.headers.get('x-dedupe')).to.equal('replay')
      expect(replay.headers.has('x-quota-remaining')).to.equal(false)
    })
  })

  describe('whose outcome is unknown', () => {
    it('are not sent again if the upstream closed the connection', async () => {
      rig.respond = (response) => response.destroy()
      await using gateway = await rig.start()
      expect(await errorOf(await gateway.invoke(READ, {}, key))).to.equal('UPSTREAM_UNREACHABLE')
      const refused = await gateway.invoke(READ, {}, key)
      expect(refused.status).to.equal(409)
      expect(await refused.json()).to.include({ error: 'IDEMPOTENT_OUTCOME_UNKNOWN', sent: false })
      expect(gateway.records()[1]).to.include({ dedupe: 'duplicate', error: 'IDEMPOTENT_OUTCOME_UNKNOWN' })
      expect(rig.upstream.calls).to.have.lengthOf(1)
    })

    it('are not sent again if the body of the response broke off', async () => {
      rig.respond = (response) => {
        response.writeHead(200, { 'content-type': 'text/event-stream' }).write('data: 1\n\n')
        setImmediate(() => response.destroy())
      }
      await using gateway = await rig.start()
      const [broken] = await Promise.allSettled([gateway.invoke(READ, {}, key)])
      expect(broken?.status).to.equal('rejected')
      expect(await errorOf(await gateway.invoke(READ, {}, key))).to.equal('IDEMPOTENT_OUTCOME_UNKNOWN')
    })
  })

  for (const status of [400, 404, 409, 422, 500, 503]) {
    it(`replay a response of ${status}, after which the call may have run`, async () => {
      rig.respond = (response) => response.writeHead(status, { 'retry-after': '7' }).end('no')
      await using gateway = await rig.start()
      const first = await gateway.invoke(READ, {}, key)
      const second = await gateway.invoke(READ, {}, key)
      expect([first.status, second.status]).to.deep.equal([status, status])
      expect(second.headers.get('x-dedupe')).to.equal('replay')
      expect([first.headers.has('retry-after'), second.headers.has('retry-after')]).to.deep.equal([
        true,
        false,
      ])
      expect(gateway.records()[1]).to.include({ error: 'UPSTREAM', status: 'error' })
      expect(rig.upstream.calls).to.have.lengthOf(1)
    })
  }

  for (const status of [401, 403, 429]) {
    it(`run again after ${status}, by which the upstream refused the call`, async () => {
      rig.respond = (response) => response.writeHead(rig.upstream.calls.length === 1 ? status : 200).end()
      await using gateway = await rig.start()
      expect((await gateway.invoke(READ, {}, key)).status).to.equal(status)
      const second = await gateway.invoke(READ, {}, key)
      expect([second.status, second.headers.get('x-dedupe')]).to.deep.equal([200, 'first'])
    })
  }

  it('report that they ran if the response was too large to be stored', async () => {
    rig.respond = (response) => response.end(Buffer.alloc(1025))
    await using gateway = await rig.start({ maxResponseKb: 1 })
    expect((await gateway.invoke(READ, {}, key)).status).to.equal(200)
    const refused = await gateway.invoke(READ, {}, key)
    expect(refused.status).to.equal(409)
    const told = (await refused.json()) as { error: string; message: string }
    expect(told.error).to.equal('IDEMPOTENT_DUPLICATE')
    expect(told.message).to.match(/has run already; its response was too large to be kept/)
    expect(rig.upstream.calls).to.have.lengthOf(1)
  })

  describe('with a streamed response', () => {
    const EVENTS = { 'content-type': 'text/event-stream' }

    it('replay the whole response', async () => {
      rig.respond = (response) => {
        response.writeHead(200, EVENTS).write('data: 1\n\n')
        setImmediate(() => response.end('data: 2\n\n'))
      }
      await using gateway = await rig.start()
      const texts = [
        await (await gateway.invoke(READ, {}, key)).text(),
        await (await gateway.invoke(READ, {}, key)).text(),
      ]
      expect(texts).to.deep.equal(Array(2).fill('data: 1\n\ndata: 2\n\n'))
      expect(rig.upstream.calls).to.have.lengthOf(1)
    })

    it('read the response to its end if the caller disconnects, and replay it to the retry', async () => {
      let open: ServerResponse | undefined
      rig.respond = (response) => {
        response.writeHead(200, EVENTS).write('data: 1\n\n')
        open = response
      }
      await using gateway = await rig.start()
      const leaving = new AbortController()
      const first = await fetch(gateway.url + READ, {
        method: 'POST',
        body: '{}',
        headers: { 'content-type': 'application/json', ...key },
        signal: leaving.signal,
      })
      expect(first.headers.get('x-dedupe')).to.equal('first')
      leaving.abort()
      const second = gateway.invoke(READ, {}, key)
      open?.end('data: 2\n\n')
      expect(await (await second).text()).to.equal('data: 1\n\ndata: 2\n\n')
      expect((await second).headers.get('x-dedupe')).to.equal('replay')
      expect(rig.upstream.calls).to.have.lengthOf(1)
    })

    it('stop reading a response that is too large to be stored if the caller disconnects', async () => {
      let open: ServerResponse | undefined
      let isClosed = false
      rig.respond = (response) => {
        response.writeHead(200, EVENTS).write('data: 1\n\n')
        response.once('close', () => {
          isClosed = true
        })
        open = response
      }
      await using gateway = await rig.start({ maxResponseKb: 1 })
      const leaving = new AbortController()
      await fetch(gateway.url + READ, {
        method: 'POST',
        body: '{}',
        headers: { 'content-type': 'application/json', ...key },
        signal: leaving.signal,
      })
      leaving.abort()
      await until(async () => {
        open?.write(Buffer.alloc(600))
        return isClosed
      })
      expect(await errorOf(await gateway.invoke(READ, {}, key))).to.equal('IDEMPOTENT_OUTCOME_UNKNOWN')
    })
  })
})
