// What bounds guesses of the admin token, and whom it does not keep out.
import { request } from 'node:http'
import { setImmediate } from 'node:timers/promises'
import { bind, type Clock, tokens } from '@svc/core'
import { expect } from 'chai'
import fc from 'fast-check'
import { MAX_OF_ALL, MAX_OF_ONE, type TokenAttempt, TokenGuesses } from 'svc-sdk/internal/admin/token-guesses'
import { FakeClock } from 'svc-sdk/testing'
import { beginSession } from '../../console/session-client.js'
import { TestIssuer } from '../../support/issuer.js'
import { keepingLogger } from '../../support/logger.js'
import { propertyRuns } from '../../support/property-runs.js'
import { signalled } from '../../support/signalled.js'
import { type AdminRig, adminToken, ask, askUnfinished, startAdminRig, trusting } from './rig.js'

const WINDOW = 60_000

interface Guess {
  readonly from: number
  readonly token: number
  readonly isSlow: boolean
}

const parts = { logger: keepingLogger(), meter: { count: () => undefined } }

describe('guesses of the admin token', () => {
  it('are bounded for each address and in all, and keep no token out that comes from another address', async () => {
    const wait = fc.record({ do: fc.constant('wait' as const), ms: fc.integer({ min: 1, max: 20_000 }) })
    const steps = fc.constantFrom(2, 60, 400).chain((addresses) => {
      const guess = fc.record({
        do: fc.constant('guess' as const),
        from: fc.nat(addresses - 1),
        token: fc.nat(60),
        isSlow: fc.boolean(),
      })
      const step = fc.oneof({ weight: 100, arbitrary: guess }, wait)
      return fc.array(step, { minLength: 600, maxLength: 700 })
    })
    await fc.assert(
      fc.asyncProperty(steps, async (all) => {
        const clock = new FakeClock()
        const guesses = new TokenGuesses({ ...parts, clock })
        const compared: { readonly at: number; readonly from: number; readonly token: number }[] = []
        const slow: TokenAttempt[] = []
        let waiting = 0
        const guess = async ({ from, token, isSlow }: Guess) => {
          waiting++
          const attempt = await guesses.begin(`10.0.${from >> 8}.${from & 255}`, `wrong-${token}`)
          waiting--
          if (attempt.refusal === undefined) compared.push({ at: clock.monotonic(), from, token })
          expect(attempt.refusal?.retryAfterSec ?? 1).to.be.within(1, WINDOW / 1000)
          if (isSlow) slow.push(attempt)
          else attempt.fail()
        }
        const guessing: Promise<void>[] = []
        for (const step of all) {
          if (step.do === 'wait') {
            clock.advance(step.ms)
            slow.shift()?.fail()
            continue
          }
          guessing.push(guess(step))
          const other = await guesses.begin('192.0.2.1', adminToken)
          expect(other.refusal, 'the right token from an address without guesses').to.equal(undefined)
          other.succeed()
        }
        while (waiting > 0 || slow.length > 0) {
          slow.shift()?.fail()
          await setImmediate()
        }
        await Promise.all(guessing)
        for (const { at, from } of compared.filter((_, index) => index % 10 === 0)) {
          const near = compared.filter((one) => one.at >= at && one.at < at + WINDOW)
          const own = new Set(near.filter((one) => one.from === from).map(({ token }) => token))
          // A window may end within any minute.
          expect(own.size).to.be.at.most(2 * MAX_OF_ONE)
          const addresses = new Set(near.map((one) => one.from)).size
          const different = new Set(near.map((one) => `${one.from} ${one.token}`)).size
          expect(different).to.be.at.most(2 * (MAX_OF_ALL + addresses))
        }
      }),
      { seed: 128, numRuns: propertyRuns(15) },
    )
  })

  /** Tries a wrong token. */
  const tryFrom = async (guesses: TokenGuesses, address: string, token: string) => {
    const { refusal, fail } = await guesses.begin(address, token)
    fail()
    return refusal?.code
  }

  it('take an IPv6 network of a client for one address', async () => {
    const clock = new FakeClock()
    const guesses = new TokenGuesses({ ...parts, clock })
    for (let n = 0; n < MAX_OF_ONE; n++)
      expect(await tryFrom(guesses, `2001:db8::${n + 1}`, `t${n}`)).to.equal(undefined)
    expect(await tryFrom(guesses, '2001:db8::ffff', 'more')).to.equal('RATE_LIMITED')
    expect(await tryFrom(guesses, '2001:db8::ffff', 't1'), 'a repetition').to.equal(undefined)
    clock.advance(WINDOW)
    expect(await tryFrom(guesses, '2001:db8::ffff', 'more')).to.equal(undefined)
  })

  it('are bounded together from networks beyond those that are remembered', async () => {
    const clock = new FakeClock()
    const guesses = new TokenGuesses({ ...parts, clock }, 3)
    // A right token keeps no place.
    const user = await guesses.begin('198.51.100.1', 'user')
    user.succeed()
    for (let n = 0; n < 3; n++) expect(await tryFrom(guesses, `10.0.0.${n}`, 'first')).to.equal(undefined)
    for (let n = 0; n < MAX_OF_ONE; n++)
      expect(await tryFrom(guesses, `10.0.1.${n}`, `t${n}`)).to.equal(undefined)
    expect(await tryFrom(guesses, '10.0.2.1', 'more')).to.equal('RATE_LIMITED')
    for (let n = 1; n < MAX_OF_ONE; n++)
      expect(await tryFrom(guesses, '10.0.0.0', `t${n}`), 'of a network of its own').to.equal(undefined)
    expect(await tryFrom(guesses, '10.0.0.0', 'more')).to.equal('RATE_LIMITED')
    clock.advance(WINDOW)
    expect(await tryFrom(guesses, '10.0.2.1', 'more')).to.equal(undefined)
  })

  it('wait for a place in their order, and are refused after 10 s', async () => {
    const clock = new FakeClock()
    const guesses = new TokenGuesses({ ...parts, clock })
    const begin = (n: number) => guesses.begin('10.0.0.1', `t${n}`)
    const running = await Promise.all(Array.from({ length: MAX_OF_ONE }, (_, n) => begin(n)))
    const [next, last] = [begin(10), begin(11)]
    clock.advance(10_001)
    const late = begin(12)
    running[0]?.succeed()
    expect((await last).refusal).to.include({ code: 'RATE_LIMITED', retryAfterSec: 1 })
    running[1]?.succeed()
    expect((await late).refusal).to.equal(undefined)
    expect((await next).refusal).to.equal(undefined)
  })

  it('are counted once they are known to be wrong: the right token waits while users are identified', async () => {
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
    const signed = Array.from({ length: MAX_OF_ONE }, (_, n) =>
      issuer.sign({ email: `u${n}@example.com`, sub: `u${n}`, roles: ['auditor'] }),
    )
    const users = (await Promise.all(signed)).map(status)
    await issuer.asked(1)
    // The gateway reads requests in their order.
    await rig.admin('/healthz')
    const admin = status(adminToken)
    await rig.admin('/healthz')
    released.resolve()
    expect(await admin).to.equal(200)
    expect(await Promise.all(users)).to.deep.equal(users.map(() => 200))
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

  it('are refused with 429, on record and counted; sessions, users and other addresses go on', async () => {
    await using issuer = await TestIssuer.start()
    let passed = 0
    const clock: Clock = { now: () => Date.now() + passed, monotonic: () => performance.now() + passed }
    await using rig = await startAdminRig({
      ...trusting(issuer),
      admin: { port: 0, tokenRef: 'env:SVC_ADMIN', roles: { auditor: ['auditor'] } },
      configure: (container) => bind(container, tokens.Clock, { useValue: clock }),
    })
    const session = await beginSession(rig.adminUrl, adminToken)
    const user = await issuer.sign({ email: 'cy@example.com', sub: 'cy', roles: ['auditor'] })
    const status = async (token: string, path = '/api/session') =>
      (await rig.admin(path, { headers: { authorization: `Bearer ${token}` } })).status
    const guessAll = () =>
      Promise.all(Array.from({ length: 14 }, (_, n) => status(`wrong-${n}-${'x'.repeat(20)}`, '/metrics')))
    const statuses = await guessAll()
    expect(statuses.filter((one) => one === 401)).to.have.length(MAX_OF_ONE)
    expect(statuses.filter((one) => one === 429)).to.have.length(4)
    // The page's sign-in by token is the same operation.
    const signIn = await rig.admin('/api/session', {
      method: 'POST',
      headers: { authorization: 'Bearer guess-0123456789', 'content-type': 'application/json' },
      body: '{}',
    })
    expect([signIn.status, signIn.json['error']]).to.deep.equal([429, 'RATE_LIMITED'])
    expect(Number(signIn.headers.get('retry-after'))).to.be.within(50, 60)
    expect(await status(adminToken), 'from the address of the guesses').to.equal(429)
    expect(await status(user), 'a user').to.equal(200)
    expect(
      (await ask(rig.adminUrl, '/api/session', { headers: { cookie: session.cookie } })).status,
    ).to.equal(200)
    const metrics = await statusFrom('127.0.0.2', rig.adminUrl, adminToken)
    expect(metrics.status).to.equal(200)
    expect(metrics.text).to.match(/^svc_admin_wrong_tokens_total 10$/m)
    expect(metrics.text).to.match(/^svc_admin_guesses_refused_total 6$/m)
    const refused = rig.gateway.records().filter(({ error }) => error === 'RATE_LIMITED')
    expect(refused.map(({ tool }) => tool)).to.include('admin/sign_in@1')
    passed = WINDOW
    expect(await status(adminToken)).to.equal(200)
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
