import { request, type ServerResponse } from 'node:http'
import { expect } from 'chai'
import { until } from '../support/redis.js'
import { dedupeRig, errorOf, key, READ } from './dedupe-rig.js'

describe('calls with an idempotency key', () => {
  const rig = dedupeRig()

  it('run once: the response is replayed with status, headers and body, and marked', async () => {
    rig.respond = (response) =>
      response.writeHead(201, { 'content-type': 'text/plain', etag: '"1"' }).end('made')
    await using gateway = await rig.start()
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
    expect(rig.upstream.calls).to.have.lengthOf(1)
  })

  it('are recorded as first calls or replays', async () => {
    await using gateway = await rig.start({ duplicatePolicy: 'replay' })
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
    await using gateway = await rig.start()
    const first = await gateway.invoke(READ)
    await gateway.invoke(READ)
    expect(first.headers.has('x-dedupe')).to.equal(false)
    expect(rig.upstream.calls).to.have.lengthOf(2)
  })

  it('are refused under the same key for other arguments or another version', async () => {
    await using gateway = await rig.start()
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
    expect(rig.upstream.calls).to.have.lengthOf(1)
  })

  it('run again under another key, for another tool or in another namespace', async () => {
    await using gateway = await rig.start()
    await gateway.invoke(READ, {}, key)
    await gateway.invoke(READ, {}, { 'idempotency-key': 'order-8' })
    await gateway.invoke('/mcp/files/delete@1.0.0', {}, key)
    await gateway.handle.reload({ dedupe: { namespace: 'another', timeoutMs: 5_000 } })
    await gateway.invoke(READ, {}, key)
    expect(rig.upstream.calls).to.have.lengthOf(4)
  })

  it('are refused as duplicates if the policy says so', async () => {
    await using gateway = await rig.start({ duplicatePolicy: 'reject' })
    await gateway.invoke(READ, {}, key)
    const refused = await gateway.invoke(READ, {}, key)
    expect(refused.status).to.equal(409)
    expect(refused.headers.has('x-dedupe')).to.equal(false)
    expect(await refused.json()).to.include({ error: 'IDEMPOTENT_DUPLICATE', sent: false })
    expect(gateway.records()[1]).to.include({ dedupe: 'duplicate', error: 'IDEMPOTENT_DUPLICATE' })
    expect(rig.upstream.calls).to.have.lengthOf(1)
  })

  describe('while the first is in flight', () => {
    let held: ServerResponse[]

    beforeEach(() => {
      held = []
      rig.respond = (response) => held.push(response)
    })

    it('wait for it and replay its response, many at once', async () => {
      await using gateway = await rig.start()
      const calls = Array.from({ length: 20 }, () => gateway.invoke(READ, {}, key))
      await until(async () => held.length > 0)
      held[0]?.end('done')
      const responses = await Promise.all(calls)
      expect(await Promise.all(responses.map((one) => one.text()))).to.deep.equal(Array(20).fill('done'))
      const marks = responses.map((one) => one.headers.get('x-dedupe'))
      expect(marks.filter((mark) => mark === 'first')).to.have.lengthOf(1)
      expect(marks.filter((mark) => mark === 'replay')).to.have.lengthOf(19)
      expect(rig.upstream.calls).to.have.lengthOf(1)
    })

    it('are refused at once with the policy reject', async () => {
      await using gateway = await rig.start({ duplicatePolicy: 'reject' })
      const first = gateway.invoke(READ, {}, key)
      await until(async () => held.length > 0)
      const refused = await gateway.invoke(READ, {}, key)
      expect([refused.status, refused.headers.get('retry-after')]).to.deep.equal([409, '1'])
      held[0]?.end('done')
      expect((await first).status).to.equal(200)
    })

    it('wait no longer than the policy allows', async () => {
      await using gateway = await rig.start({ waitSec: 0 })
      const first = gateway.invoke(READ, {}, key)
      await until(async () => held.length > 0)
      expect(await errorOf(await gateway.invoke(READ, {}, key))).to.equal('IDEMPOTENT_DUPLICATE')
      held[0]?.end('done')
      expect((await first).status).to.equal(200)
    })

    it('wait no longer than a call may take', async () => {
      await using gateway = await rig.start()
      const first = gateway.invoke(READ, {}, key)
      await until(async () => held.length > 0)
      await gateway.handle.reload({ security: { limits: { max_duration_ms: 100 } } })
      const second = await gateway.invoke(READ, {}, key)
      expect(await second.json()).to.include({ error: 'DURATION_EXCEEDED', sent: false })
      held[0]?.end('done')
      expect((await first).status).to.equal(200)
    })

    it('are refused after a first call that took longer than it may', async () => {
      await using gateway = await rig.start({}, { security: { limits: { max_duration_ms: 300 } } })
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
      expect(rig.upstream.calls).to.have.lengthOf(1)
    })

    it('stop waiting when their caller disconnects', async () => {
      await using gateway = await rig.start()
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
      await using gateway = await rig.start()
      const first = gateway.invoke(READ, {}, key)
      await until(async () => held.length > 0)
      await gateway.handle.reload({ dedupe: { timeoutMs: 5_000 } })
      const second = gateway.invoke(READ, {}, key)
      held[0]?.end('done')
      expect((await first).headers.get('x-dedupe')).to.equal('first')
      expect((await second).headers.get('x-dedupe')).to.equal('replay')
    })
  })

  it('keep their responses across a restart', async () => {
    await using gateway = await rig.start()
    await gateway.invoke(READ, {}, key)
    await gateway.handle.close()
    await using again = await rig.start({ dir: `${gateway.dir}/../dedupe` })
    expect((await again.invoke(READ, {}, key)).headers.get('x-dedupe')).to.equal('replay')
  })

  it('are checked in observe mode too', async () => {
    await using gateway = await rig.start({ duplicatePolicy: 'reject' }, { enforcement: { mode: 'observe' } })
    await gateway.invoke(READ, {}, key)
    expect((await gateway.invoke(READ, {}, key)).status).to.equal(409)
  })

  it('are ignored if the section is disabled', async () => {
    await using gateway = await rig.start({ enabled: false })
    const responses = [await gateway.invoke(READ, {}, key), await gateway.invoke(READ, {}, key)]
    expect(responses.map((one) => one.headers.has('x-dedupe'))).to.deep.equal([false, false])
    expect(rig.upstream.calls).to.have.lengthOf(2)
  })
})
