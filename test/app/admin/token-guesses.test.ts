// What bounds guesses of the admin token, and whom it does not keep out.
import { request } from 'node:http'
import { setImmediate } from 'node:timers/promises'
import { bind, type Clock, tokens } from '@svc/core'
import { expect } from 'chai'
import fc from 'fast-check'
import { AT_ONCE, MAX_WAIT_MS, TokenGuesses, TURN_MS } from 'svc-sdk/internal/admin/token-guesses'
import { FakeClock } from 'svc-sdk/testing'
import { beginSession } from '../../console/session-client.js'
import { TestIssuer } from '../../support/issuer.js'
import { keepingLogger } from '../../support/logger.js'
import { propertyRuns } from '../../support/property-runs.js'
import { signalled } from '../../support/signalled.js'
import { type AdminRig, adminToken, ask, askUnfinished, startAdminRig, trusting } from './rig.js'

const WINDOW = 60_000

const parts = { logger: keepingLogger(), meter: { count: () => undefined } }

/** Guesses in a time that passes only in `advance`, which lets each attempt have its turn. */
function guessesIn(clock: FakeClock, maxNetworks?: number) {
  let waiting: { readonly at: number; readonly resolve: () => void }[] = []
  const pause = (ms: number) =>
    new Promise<void>((resolve) => waiting.push({ at: clock.monotonic() + ms, resolve }))
  const guesses = new TokenGuesses({ ...parts, clock, pause }, maxNetworks)
  const outcomes: { readonly from: string; readonly at: number; readonly code: string | undefined }[] = []
  return {
    outcomes,
    /** Tries a token that turns out wrong, or right. */
    async attempt(from: string, isRight = false): Promise<void> {
      const { refusal, succeed, fail } = await guesses.begin(from)
      outcomes.push({ from, at: clock.monotonic(), code: refusal?.code })
      if (isRight) succeed()
      else fail()
    },
    async advance(ms: number): Promise<void> {
      const end = clock.monotonic() + ms
      for (;;) {
        await setImmediate()
        const next = Math.min(end, ...waiting.map(({ at }) => at))
        clock.advance(next - clock.monotonic())
        const due = waiting.filter(({ at }) => at <= next)
        waiting = waiting.filter(({ at }) => at > next)
        for (const { resolve } of due) resolve()
        if (due.length === 0) return
      }
    },
  }
}

describe('guesses of the admin token', () => {
  it('are compared at a bounded rate for each address, and delay no token of another address', async () => {
    const step = fc.record({ from: fc.nat(3), count: fc.nat(300), ms: fc.nat(2_000) })
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 20 }), async (steps) => {
        const clock = new FakeClock()
        const { outcomes, attempt, advance } = guessesIn(clock)
        for (const { from, count, ms } of steps) {
          for (let n = 0; n < count; n++) void attempt(`10.0.0.${from}`)
          void attempt('192.0.2.1', true)
          await setImmediate()
          const at = clock.monotonic()
          expect(outcomes.at(-1), 'the right token').to.deep.equal({ from: '192.0.2.1', at, code: undefined })
          await advance(ms)
        }
        await advance(MAX_WAIT_MS)
        const compared = outcomes.filter(({ from, code }) => from !== '192.0.2.1' && code === undefined)
        for (const { from, at } of compared) {
          const near = compared.filter((one) => one.from === from && one.at >= at && one.at < at + 1_000)
          // A window may end within any second.
          expect(near.length).to.be.at.most(2 * (AT_ONCE + 1_000 / TURN_MS))
        }
        const tried = steps.reduce((sum, { count }) => sum + count + 1, 0)
        expect(outcomes, 'each is compared or refused').to.have.length(tried)
      }),
      { seed: 128, numRuns: propertyRuns(15) },
    )
  })

  it('do not keep the right token of their address out: it waits for its turn, 2 s at most', async () => {
    const clock = new FakeClock()
    const { outcomes, attempt, advance } = guessesIn(clock)
    const begun = clock.monotonic()
    for (let n = 0; n < 200; n++) void attempt('10.0.0.1')
    void attempt('10.0.0.1', true)
    await advance(MAX_WAIT_MS)
    expect(outcomes.at(-1)).to.deep.include({ at: begun + 191 * TURN_MS, code: undefined })
    await advance(WINDOW)
    for (let n = 0; n < 1_000; n++) void attempt('10.0.0.1')
    await setImmediate()
    expect(outcomes.at(-1)).to.deep.include({ code: 'RATE_LIMITED' })
    await advance(1_000)
    void attempt('10.0.0.1', true)
    await advance(MAX_WAIT_MS)
    expect(outcomes.at(-1)).to.deep.include({ code: undefined })
  })

  it('take an IPv6 network of a client for one address, and all networks beyond those that are remembered', async () => {
    const clock = new FakeClock()
    const { outcomes, attempt } = guessesIn(clock, 2)
    const compared = async (addresses: string[]) => {
      const before = outcomes.length
      for (const address of addresses) void attempt(address)
      await setImmediate()
      return outcomes.length - before
    }
    const several = (prefix: string) => Array.from({ length: 2 * AT_ONCE }, (_, n) => `${prefix}${n + 1}`)
    // A right token is not remembered.
    await attempt('198.51.100.1', true)
    expect(await compared(several('2001:db8::'))).to.equal(AT_ONCE)
    expect(await compared(['10.0.0.1'])).to.equal(1)
    expect(await compared(several('10.0.1.')), 'of new networks').to.equal(AT_ONCE)
    expect(await compared(['10.0.0.1']), 'of a known network').to.equal(1)
  })

  it('do not keep the right token waiting while users are identified, which takes as long as their issuer', async () => {
    await using issuer = await TestIssuer.start()
    const released = signalled()
    issuer.response(async (_, response) => {
      await released.happened
      response.end(JSON.stringify({ keys: issuer.keys }))
    })
    await using rig = await startAdminRig({
      ...trusting(issuer),
      admin: { port: 0, tokenRef: 'env:SVC_ADMIN', roles: { auditor: ['auditor'] } },
    })
    const status = async (token: string) =>
      (await rig.admin('/api/session', { headers: { authorization: `Bearer ${token}` } })).status
    const signed = Array.from({ length: AT_ONCE }, (_, n) =>
      issuer.sign({ email: `u${n}@example.com`, sub: `u${n}`, roles: ['auditor'] }),
    )
    const users = (await Promise.all(signed)).map(status)
    await issuer.asked(1)
    // The gateway reads requests in their order.
    await rig.admin('/healthz')
    expect(await status(adminToken)).to.equal(200)
    released.resolve()
    expect(await Promise.all(users)).to.deep.equal(users.map(() => 200))
  })

  it("delay no user's token, also from their address", async () => {
    await using issuer = await TestIssuer.start()
    await using rig = await startAdminRig({
      ...trusting(issuer),
      admin: { port: 0, tokenRef: 'env:SVC_ADMIN', roles: { auditor: ['auditor'] } },
    })
    const user = await issuer.sign({ email: 'cy@example.com', sub: 'cy', roles: ['auditor'] })
    const status = async (token: string) =>
      (await rig.admin('/api/session', { headers: { authorization: `Bearer ${token}` } })).status
    const guesses = Array.from({ length: 100 }, (_, n) => status(`wrong-${n}-${'x'.repeat(20)}`))
    await guesses[0]
    const ended = Promise.all(guesses).then(() => 'the guesses ended first')
    expect(await Promise.race([status(user), ended])).to.equal(200)
    await ended
  })

  it('count, and are on record, with a body that is refused; the right token gets the reason', async () => {
    await using rig = await startAdminRig()
    const path = '/api/session'
    const headersOf = (token: string, more: Record<string, string>) => ({
      authorization: `Bearer ${token}`,
      'content-type': 'application/json',
      ...more,
    })
    const outcomes = []
    for (const [body, more] of [
      ['x'.repeat(17_000), {}],
      ['{}', { 'content-encoding': 'gzip' }],
    ] as const)
      for (const token of [`wrong-${body.length}-012345`, adminToken]) {
        const { json } = await rig.admin(path, { method: 'POST', headers: headersOf(token, more), body })
        outcomes.push(json['error'])
      }
    expect(outcomes).to.deep.equal(['UNAUTHENTICATED', 'PAYLOAD_TOO_LARGE', 'UNAUTHENTICATED', 'BAD_REQUEST'])
    for (const code of outcomes) expect(isRecorded(rig, String(code)), `${code} is on record`).to.equal(true)
    for (const token of ['wrong-and-cut-off', adminToken])
      (await askUnfinished(rig.adminUrl, path, headersOf(token, {}), '{}')).cut()
    let metrics = ''
    while (!metrics.includes('svc_admin_wrong_tokens_total 3') || !isRecorded(rig, 'CANCELLED'))
      metrics = (await rig.admin('/metrics')).text
  })

  it('end for a moment with 429, on record and counted; users, sessions and the right token go on', async () => {
    await using issuer = await TestIssuer.start()
    // The turns are counted by a clock that stands.
    let now = 0
    const clock: Clock = { now: () => Date.now(), monotonic: () => now }
    await using rig = await startAdminRig({
      ...trusting(issuer),
      admin: { port: 0, tokenRef: 'env:SVC_ADMIN', roles: { auditor: ['auditor'] } },
      configure: (container) => bind(container, tokens.Clock, { useValue: clock }),
    })
    const session = await beginSession(rig.adminUrl, adminToken)
    const user = await issuer.sign({ email: 'cy@example.com', sub: 'cy', roles: ['auditor'] })
    const status = async (token: string, path = '/api/session') =>
      (await rig.admin(path, { headers: { authorization: `Bearer ${token}` } })).status
    const turns = AT_ONCE + MAX_WAIT_MS / TURN_MS
    const counts = new Map<number, number>()
    const settled = signalled()
    const guess = async (n: number) => {
      const code = await status(`wrong-${n}-${'x'.repeat(20)}`, '/metrics')
      counts.set(code, (counts.get(code) ?? 0) + 1)
      if (counts.get(429) === 5) settled.resolve()
    }
    // Those that wait are cut off at the end.
    for (let n = 0; n < turns + 5; n++) guess(n).catch(() => undefined)
    await settled.happened
    expect(await status(user), 'a user').to.equal(200)
    expect(
      (await ask(rig.adminUrl, '/api/session', { headers: { cookie: session.cookie } })).status,
    ).to.equal(200)
    expect(await status(adminToken), 'from the address of the guesses').to.equal(429)
    const metrics = await statusFrom('127.0.0.2', rig.adminUrl, adminToken)
    expect([metrics.status, counts.get(429)]).to.deep.equal([200, 5])
    expect(metrics.text).to.match(/^svc_admin_guesses_refused_total 6$/m)
    expect(isRecorded(rig, 'RATE_LIMITED')).to.equal(true)
    now += MAX_WAIT_MS
    expect(await status(adminToken), 'from the address of the guesses').to.equal(200)
  })
})

function isRecorded({ gateway }: AdminRig, code: string): boolean {
  return gateway.records().some(({ error }) => error === code)
}

function statusFrom(localAddress: string, url: string, token: string) {
  return new Promise<{ readonly status: number | undefined; readonly text: string }>((resolve, reject) => {
    const sending = request(`${url}/metrics`, {
      localAddress,
      agent: false,
      headers: { authorization: `Bearer ${token}` },
    })
    sending.once('error', reject)
    sending.once('response', async (message) => {
      const pieces = await message.toArray()
      resolve({ status: message.statusCode, text: Buffer.concat(pieces).toString() })
    })
    sending.end()
  })
}
