import { request, type ServerResponse } from 'node:http'
import { expect } from 'chai'
import type { GatewaySettings } from 'svc-sdk'
import { startTestGateway, type TestGateway } from '../support/gateway.js'
import { until } from '../support/redis.js'
import { startUpstream, type TestUpstream, type UpstreamCall } from '../support/upstream.js'

const READ = '/mcp/files/write@1.0.0'
const key = { 'idempotency-key': 'order-7' }

/** The response of the upstream to a call; by default it describes the call. */
type HttpResponse = (response: ServerResponse, call: UpstreamCall) => void

describe('calls with an idempotency key', () => {
  let upstream: TestUpstream
  let respond: HttpResponse

  beforeEach(async () => {
    respond = (response, call) =>
      response.end(JSON.stringify({ run: upstream.calls.length, call: call.path }))
    upstream = await startUpstream((call, response) => respond(response, call))
  })

  afterEach(() => upstream[Symbol.asyncDispose]())

  const start = (dedupe: object = {}, more: Partial<GatewaySettings> = {}): Promise<TestGateway> =>
    startTestGateway((home) => ({
      sec0Dir: home,
      targets: { files: upstream.url },
      dedupe: { timeoutMs: 5_000, ...dedupe },
      ...more,
    }))

  const errorOf = async (response: Response): Promise<unknown> =>
    ((await response.json()) as { error?: unknown }).error

  it('run once: the response is replayed with status, headers and body, and marked', async () => {
    respond = (response) => response.writeHead(201, { 'content-type': 'text/plain', etag: '"1"' }).end('made')
    await using gateway = await start()
    const first = await gateway.invoke(READ, { a: 1 }, key)
    const second = await gateway.invoke(READ, { a: 1 }, key)
    for (const [response, mark] of [
      [first, 'first'],
      [second, 'replay'],
    ] as const) {
      expect(response.status).to.equal(201)
      expect(response.headers.get('x-dedupe')).to.equal(mark)
      expect(response.headers.get('content-type')).to.equal('text/plain')
      expect(response.headers.get('etag')).to.equal('"1"')
      expect(await response.text()).to.equal('made')
    }
    expect(first.headers.get('x-trace-id')).to.not.equal(second.headers.get('x-trace-id'))
    expect(upstream.calls).to.have.lengthOf(1)
  })

  it('are recorded as first calls or replays', async () => {
    await using gateway = await start({ duplicatePolicy: 'replay' })
    await gateway.invoke(READ, {}, key)
    await gateway.invoke(READ, {}, key)
    await gateway.invoke(READ, { other: true }, key)
    await gateway.invoke(READ, {})
    const [first, replay, reused, plain] = gateway.records()
    expect(first).to.include({ dedupe: 'first', status: 'ok', idempotency_key: 'order-7' })
    expect(replay).to.include({ dedupe: 'replay', status: 'ok', output_sha256: first?.output_sha256 })
    expect(reused)
      .to.include({ error: 'IDEMPOTENCY_KEY_REUSED', status: 'error' })
      .and.not.have.property('dedupe')
    expect(plain).to.not.have.property('dedupe')
  })

  it('pass untouched without a key', async () => {
    await using gateway = await start()
    const first = await gateway.invoke(READ)
    await gateway.invoke(READ)
    expect(first.headers.has('x-dedupe')).to.equal(false)
    expect(upstream.calls).to.have.lengthOf(2)
  })

  it('are refused under the same key for other arguments or another version', async () => {
    await using gateway = await start()
    await gateway.invoke(READ, { a: 1, b: 2 }, key)
    for (const [path, args] of [
      [READ, { a: 2, b: 2 }],
      ['/mcp/files/write@2.0.0', { a: 1, b: 2 }],
    ] as const) {
      const refused = await gateway.invoke(path, args, key)
      expect(refused.status).to.equal(422)
      expect(await refused.json()).to.include({ error: 'IDEMPOTENCY_KEY_REUSED', sent: false })
    }
    expect((await gateway.invoke(READ, '{"b":2,"a":1}', key)).headers.get('x-dedupe')).to.equal('replay')
    expect(upstream.calls).to.have.lengthOf(1)
  })

  it('run again under another key, for another tool or in another namespace', async () => {
    await using gateway = await start()
    await gateway.invoke(READ, {}, key)
    await gateway.invoke(READ, {}, { 'idempotency-key': 'order-8' })
    await gateway.invoke('/mcp/files/delete@1.0.0', {}, key)
    await gateway.handle.reload({ dedupe: { namespace: 'another', timeoutMs: 5_000 } })
    await gateway.invoke(READ, {}, key)
    expect(upstream.calls).to.have.lengthOf(4)
  })

  it('are refused as duplicates if the policy says so', async () => {
    await using gateway = await start({ duplicatePolicy: 'reject' })
    await gateway.invoke(READ, {}, key)
    const refused = await gateway.invoke(READ, {}, key)
    expect(refused.status).to.equal(409)
    expect(refused.headers.has('x-dedupe')).to.equal(false)
    expect(await refused.json()).to.include({ error: 'IDEMPOTENT_DUPLICATE', sent: false })
    expect(gateway.records()[1]).to.include({ dedupe: 'duplicate', error: 'IDEMPOTENT_DUPLICATE' })
    expect(upstream.calls).to.have.lengthOf(1)
  })

  describe('while the first is in flight', () => {
    let held: ServerResponse[]

    beforeEach(() => {
      held = []
      respond = (response) => held.push(response)
    })

    it('wait for it and replay its response, many at once', async () => {
      await using gateway = await start()
      const calls = Array.from({ length: 20 }, () => gateway.invoke(READ, {}, key))
      await until(async () => held.length > 0)
      held[0]?.end('done')
      const responses = await Promise.all(calls)
      expect(await Promise.all(responses.map((one) => one.text()))).to.deep.equal(Array(20).fill('done'))
      const marks = responses.map((one) => one.headers.get('x-dedupe'))
      expect(marks.filter((mark) => mark === 'first')).to.have.lengthOf(1)
      expect(marks.filter((mark) => mark === 'replay')).to.have.lengthOf(19)
      expect(upstream.calls).to.have.lengthOf(1)
    })

    it('are refused at once with the policy reject', async () => {
      await using gateway = await start({ duplicatePolicy: 'reject' })
      const first = gateway.invoke(READ, {}, key)
      await until(async () => held.length > 0)
      const refused = await gateway.invoke(READ, {}, key)
      expect([refused.status, refused.headers.get('retry-after')]).to.deep.equal([409, '1'])
      held[0]?.end('done')
      expect((await first).status).to.equal(200)
    })

    it('wait no longer than the policy allows', async () => {
      await using gateway = await start({ waitSec: 0 })
      const first = gateway.invoke(READ, {}, key)
      await until(async () => held.length > 0)
      expect(await errorOf(await gateway.invoke(READ, {}, key))).to.equal('IDEMPOTENT_DUPLICATE')
      held[0]?.end('done')
      expect((await first).status).to.equal(200)
    })

    it('wait no longer than a call may take', async () => {
      await using gateway = await start()
      const first = gateway.invoke(READ, {}, key)
      await until(async () => held.length > 0)
      await gateway.handle.reload({ security: { limits: { max_duration_ms: 100 } } })
      const second = await gateway.invoke(READ, {}, key)
      expect(await second.json()).to.include({ error: 'DURATION_EXCEEDED', sent: false })
      held[0]?.end('done')
      expect((await first).status).to.equal(200)
    })

    it('are refused after a first call that took longer than it may', async () => {
      await using gateway = await start({}, { security: { limits: { max_duration_ms: 300 } } })
      const late = await gateway.invoke(READ, {}, key)
      expect(late.status).to.equal(504)
      expect(await late.json()).to.include({
        error: 'DURATION_EXCEEDED',
        denial_level: 'gateway',
        denial_type: 'security',
        denial_reason: 'duration_too_long',
        sent: 'unknown',
      })
      expect(await errorOf(await gateway.invoke(READ, {}, key))).to.equal('IDEMPOTENT_OUTCOME_UNKNOWN')
      expect(upstream.calls).to.have.lengthOf(1)
    })

    it('stop waiting when their caller disconnects', async () => {
      await using gateway = await start()
      const first = gateway.invoke(READ, {}, key)
      await until(async () => held.length > 0)
      const headers = { 'content-type': 'application/json', 'content-length': 2, ...key }
      const second = request(gateway.url, { method: 'POST', path: READ, headers })
      second.once('error', () => undefined)
      second.end('{}', () => second.destroy())
      await until(async () => gateway.records().length > 0)
      expect(gateway.records()[0]).to.include({ error: 'CANCELLED', sent: 'no' })
      held[0]?.end('done')
      expect((await first).status).to.equal(200)
    })

    it('wait for the first call across a reload', async () => {
      await using gateway = await start()
      const first = gateway.invoke(READ, {}, key)
      await until(async () => held.length > 0)
      await gateway.handle.reload({ dedupe: { timeoutMs: 5_000 } })
      const second = gateway.invoke(READ, {}, key)
      held[0]?.end('done')
      expect((await first).headers.get('x-dedupe')).to.equal('first')
      expect((await second).headers.get('x-dedupe')).to.equal('replay')
    })
  })

  describe('whose first call was not sent', () => {
    it('run when the upstream can be reached again', async () => {
      await using gateway = await start({}, { targets: { files: 'http://127.0.0.1:1' } })
      const failed = await gateway.invoke(READ, {}, key)
      expect(await failed.json()).to.include({ error: 'UPSTREAM_UNREACHABLE', sent: false })
      await gateway.handle.reload({ targets: { files: upstream.url }, dedupe: { timeoutMs: 5_000 } })
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
      await using gateway = await start({}, limited(0))
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
      respond = (response) => response.destroy()
      await using gateway = await start()
      expect(await errorOf(await gateway.invoke(READ, {}, key))).to.equal('UPSTREAM_UNREACHABLE')
      const refused = await gateway.invoke(READ, {}, key)
      expect(refused.status).to.equal(409)
      expect(await refused.json()).to.include({ error: 'IDEMPOTENT_OUTCOME_UNKNOWN', sent: false })
      expect(gateway.records()[1]).to.include({ dedupe: 'duplicate', error: 'IDEMPOTENT_OUTCOME_UNKNOWN' })
      expect(upstream.calls).to.have.lengthOf(1)
    })

    it('are not sent again if the body of the response broke off', async () => {
      respond = (response) => {
        response.writeHead(200, { 'content-type': 'text/event-stream' }).write('data: 1\n\n')
        setImmediate(() => response.destroy())
      }
      await using gateway = await start()
      const [broken] = await Promise.allSettled([gateway.invoke(READ, {}, key)])
      expect(broken?.status).to.equal('rejected')
      expect(await errorOf(await gateway.invoke(READ, {}, key))).to.equal('IDEMPOTENT_OUTCOME_UNKNOWN')
    })
  })

  for (const status of [400, 404, 409, 422, 500, 503]) {
    it(`replay a response of ${status}, after which the call may have run`, async () => {
      respond = (response) => response.writeHead(status, { 'retry-after': '7' }).end('no')
      await using gateway = await start()
      const first = await gateway.invoke(READ, {}, key)
      const second = await gateway.invoke(READ, {}, key)
      expect([first.status, second.status]).to.deep.equal([status, status])
      expect(second.headers.get('x-dedupe')).to.equal('replay')
      expect([first.headers.has('retry-after'), second.headers.has('retry-after')]).to.deep.equal([
        true,
        false,
      ])
      expect(gateway.records()[1]).to.include({ error: 'UPSTREAM', status: 'error' })
      expect(upstream.calls).to.have.lengthOf(1)
    })
  }

  for (const status of [401, 403, 429]) {
    it(`run again after ${status}, by which the upstream refused the call`, async () => {
      respond = (response) => response.writeHead(upstream.calls.length === 1 ? status : 200).end()
      await using gateway = await start()
      expect((await gateway.invoke(READ, {}, key)).status).to.equal(status)
      const second = await gateway.invoke(READ, {}, key)
      expect([second.status, second.headers.get('x-dedupe')]).to.deep.equal([200, 'first'])
    })
  }

  it('report that they ran if the response was too large to be stored', async () => {
    respond = (response) => response.end(Buffer.alloc(1025))
    await using gateway = await start({ maxResponseKb: 1 })
    expect((await gateway.invoke(READ, {}, key)).status).to.equal(200)
    const refused = await gateway.invoke(READ, {}, key)
    expect(refused.status).to.equal(409)
    const told = (await refused.json()) as { error: string; message: string }
    expect(told.error).to.equal('IDEMPOTENT_DUPLICATE')
    expect(told.message).to.match(/has run already; its response was too large to be kept/)
    expect(upstream.calls).to.have.lengthOf(1)
  })

  describe('with a streamed response', () => {
    const EVENTS = { 'content-type': 'text/event-stream' }

    it('replay the whole response', async () => {
      respond = (response) => {
        response.writeHead(200, EVENTS).write('data: 1\n\n')
        setImmediate(() => response.end('data: 2\n\n'))
      }
      await using gateway = await start()
      const texts = [
        await (await gateway.invoke(READ, {}, key)).text(),
        await (await gateway.invoke(READ, {}, key)).text(),
      ]
      expect(texts).to.deep.equal(Array(2).fill('data: 1\n\ndata: 2\n\n'))
      expect(upstream.calls).to.have.lengthOf(1)
    })

    it('read the response to its end if the caller disconnects, and replay it to the retry', async () => {
      let open: ServerResponse | undefined
      respond = (response) => {
        response.writeHead(200, EVENTS).write('data: 1\n\n')
        open = response
      }
      await using gateway = await start()
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
      expect(upstream.calls).to.have.lengthOf(1)
    })

    it('stop reading a response that is too large to be stored if the caller disconnects', async () => {
      let open: ServerResponse | undefined
      let isClosed = false
      respond = (response) => {
        response.writeHead(200, EVENTS).write('data: 1\n\n')
        response.once('close', () => {
          isClosed = true
        })
        open = response
      }
      await using gateway = await start({ maxResponseKb: 1 })
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

  it('keep their responses across a restart', async () => {
    await using gateway = await start()
    await gateway.invoke(READ, {}, key)
    await gateway.handle.close()
    await using again = await start({ dir: `${gateway.dir}/../dedupe` })
    expect((await again.invoke(READ, {}, key)).headers.get('x-dedupe')).to.equal('replay')
  })

  it('are checked in observe mode too', async () => {
    await using gateway = await start({ duplicatePolicy: 'reject' }, { enforcement: { mode: 'observe' } })
    await gateway.invoke(READ, {}, key)
    expect((await gateway.invoke(READ, {}, key)).status).to.equal(409)
  })

  it('are ignored if the section is disabled', async () => {
    await using gateway = await start({ enabled: false })
    const responses = [await gateway.invoke(READ, {}, key), await gateway.invoke(READ, {}, key)]
    expect(responses.map((one) => one.headers.has('x-dedupe'))).to.deep.equal([false, false])
    expect(upstream.calls).to.have.lengthOf(2)
  })
})
