import {
  type Call,
  type Completed,
  denied,
  failed,
  identity,
  limits,
  type QuotaAdapter,
  type Stage,
} from '@svc/core'
import { Pipeline } from '@svc/core/pipeline'
import { quotasPlugin } from '@svc/plugin-quotas'
import { expect } from 'chai'
import fc from 'fast-check'
import { controlOf, makeCall } from '../../support/call.js'
import { ofEachTest } from '../../support/parts.js'
import { explain, sendWithHolds, served } from '../../support/stage-rig.js'
import { KEY, limited, QuotasRig, run } from './rig.js'

describe('quotas', () => {
  const rig = ofEachTest(() => new QuotasRig())

  it('returns the outcome untouched when no limit applies', async () => {
    const stage = await rig.started()
    expect(await stage.handle(makeCall(), async () => served)).to.equal(served)
    expect(await stage.handle(limited(), async () => served)).to.equal(served)
  })

  it('does not count protocol requests', async () => {
    const call = makeCall({ request: { kind: 'protocol' } })
    call.set(limits, [{ key: KEY, level: 'tenant', callsPerDay: 0 }])
    expect(await run(await rig.started(), call)).to.equal(served)
  })

  it('refuses the call after the last of the day, until midnight UTC', async () => {
    const stage = await rig.started()
    expect(await run(stage, limited({ callsPerDay: 1 }))).to.have.property('kind', 'completed')
    expect(await run(stage, limited({ callsPerDay: 1 }))).to.deep.equal(
      denied(
        'QUOTA_EXCEEDED',
        "Today's calls are used up: limit of the tenant: 1 calls per day. Try again in 43200 s.",
        {
          denial: { level: 'tenant', type: 'quotas', limit: 'mcp://files/echo' },
          headers: {
            'retry-after': '43200',
            'x-quota-remaining': '0',
            'x-quota-reset-at': '2026-06-16T00:00:00.000Z',
            'ratelimit-policy': '"tenant-day";q=1;w=86400',
            ratelimit: '"tenant-day";r=0;t=43200',
          },
        },
      ),
    )
    rig.clock.set(Date.UTC(2026, 5, 16))
    expect(await run(stage, limited({ callsPerDay: 1 }))).to.have.property('kind', 'completed')
  })

  it('refuses the call that finds the bucket empty, until a token is there', async () => {
    const stage = await rig.started()
    const limit = { ratePerSec: 0.5, burst: 2, level: 'user' }
    for (let call = 0; call < 2; call++) await run(stage, limited(limit))
    expect(await run(stage, limited(limit))).to.deep.equal(
      denied(
        'RATE_LIMITED',
        'The rate is used up: limit of the user: 0.5 calls per second, 2 at once. Try again in 2 s.',
        {
          denial: { level: 'user', type: 'quotas', limit: 'mcp://files/echo' },
          headers: {
            'retry-after': '2',
            'x-rate-remaining': '0',
            'ratelimit-policy': '"user-rate";q=2;w=4',
            ratelimit: '"user-rate";r=0;t=2',
          },
        },
      ),
    )
    rig.clock.advance(2000)
    expect(await run(stage, limited(limit))).to.have.property('kind', 'completed')
  })

  it('sends a Retry-After of at least one second', async () => {
    const stage = await rig.started()
    await run(stage, limited({ ratePerSec: 100, burst: 1 }))
    const outcome = await run(stage, limited({ ratePerSec: 100, burst: 1 }))
    expect(outcome.headers).to.have.property('retry-after', '1')
  })

  it('adds headers about the limits to a copy of the response', async () => {
    const response: Completed = { ...served, headers: { 'x-own': '1' } }
    const outcome = await run(
      await rig.started(),
      limited(
        { callsPerDay: 10, ratePerSec: 1, burst: 5 },
        { key: `${KEY}#user:ada`, level: 'user', callsPerDay: 3 },
      ),
      response,
    )
    expect(outcome.headers).to.deep.equal({
      'x-own': '1',
      'x-rate-remaining': '4',
      'x-quota-remaining': '2',
      'x-quota-reset-at': '2026-06-16T00:00:00.000Z',
      'ratelimit-policy': '"tenant-rate";q=5;w=5, "tenant-day";q=10;w=86400, "user-day";q=3;w=86400',
      ratelimit: '"tenant-rate";r=4;t=1, "tenant-day";r=9;t=43200, "user-day";r=2;t=43200',
    })
    expect(response.headers).to.deep.equal({ 'x-own': '1' })
    expect(outcome).to.have.property('body', response.body)
  })

  it('gives limits of one level different names', async () => {
    const outcome = await run(
      await rig.started(),
      limited(
        { key: `${KEY}#role:a`, level: 'role', callsPerDay: 3 },
        { key: `${KEY}#role:b`, level: 'role', callsPerDay: 4 },
      ),
    )
    expect(outcome.headers).to.have.property('ratelimit', '"role-day";r=2;t=43200, "role-day-2";r=3;t=43200')
  })

  it('takes a token before it counts', async () => {
    const stage = await rig.started()
    await run(stage, limited({ callsPerDay: 100, ratePerSec: 1, burst: 1 }))
    const outcome = await run(stage, limited({ callsPerDay: 100, ratePerSec: 1, burst: 1 }))
    expect(outcome).to.have.property('code', 'RATE_LIMITED')
    expect(await rig.remaining(KEY)).to.equal(99)
  })

  it('names the part of a limit that is used up', async () => {
    const outcome = await run(await rig.started(), limited({ callsPerDay: 0, ratePerSec: 5 }))
    expect(outcome).to.have.property(
      'message',
      "Today's calls are used up: limit of the tenant: 0 calls per day. Try again in 43200 s.",
    )
  })

  it('counts no call that a later limit refuses', async () => {
    const outcome = await run(
      await rig.started(),
      limited({ callsPerDay: 100 }, { key: `${KEY}#user:ada`, level: 'user', callsPerDay: 0 }),
    )
    expect(outcome).to.include({ kind: 'denied', code: 'QUOTA_EXCEEDED' })
    expect(outcome.headers).to.have.property(
      'ratelimit',
      '"tenant-day";r=100;t=43200, "user-day";r=0;t=43200',
    )
    expect(await rig.remaining(KEY)).to.equal(100)
  })

  it('does not count a call that was not sent, nor report it as used', async () => {
    const outcome = await run(
      await rig.started(),
      limited({ callsPerDay: 100 }),
      failed('BROKER_UNAVAILABLE', 'no key'),
    )
    expect(outcome).to.include({ kind: 'failed', code: 'BROKER_UNAVAILABLE' })
    expect(outcome.headers).to.have.property('x-quota-remaining', '100')
    expect(await rig.remaining(KEY)).to.equal(100)
  })

  it('counts no call whose holds were committed and that still was not sent', async () => {
    const stage = await rig.started()
    await sendWithHolds('quotas', stage, limited({ callsPerDay: 100 }), async (call) => {
      await controlOf(call).commitHolds()
      controlOf(call).markSent('no')
      return failed('UPSTREAM_UNREACHABLE', 'connection refused')
    })
    expect(await rig.remaining(KEY)).to.equal(100)
  })

  it('counts a call that may have been sent', async () => {
    await sendWithHolds('quotas', await rig.started(), limited({ callsPerDay: 100 }), async (call) => {
      await controlOf(call).commitHolds()
      return failed('UPSTREAM_UNREACHABLE', 'gone')
    })
    expect(await rig.remaining(KEY)).to.equal(99)
  })

  it('refunds a call to the day in which it was counted', async () => {
    const stage = await rig.started()
    rig.clock.set(Date.UTC(2026, 5, 16) - 1)
    const overMidnight: Stage = {
      handle: async (_call, next) => {
        rig.clock.advance(2)
        return next()
      },
    }
    await new Pipeline(
      [
        { name: 'quotas', stage },
        { name: 'slow', stage: overMidnight },
      ],
      async () => failed('BROKER_UNAVAILABLE', 'no key'),
    ).run(controlOf(limited({ callsPerDay: 1 })))
    expect((await rig.memory.incrDaily('acme', KEY, 1, Date.UTC(2026, 5, 16) - 1)).count).to.equal(1)
  })

  it('works with an adapter without refundDaily', async () => {
    const adapter: QuotaAdapter = {
      incrDaily: (...args) => rig.memory.incrDaily(...args),
      takeToken: (...args) => rig.memory.takeToken(...args),
    }
    const outcome = await run(
      await rig.started(adapter),
      limited({ callsPerDay: 100 }),
      failed('DRAINING', 'bye'),
    )
    expect(outcome.headers).to.have.property('x-quota-remaining', '99')
    expect(await rig.remaining(KEY)).to.equal(99)
  })

  it('counts for the tenant of the token', async () => {
    const call = limited({ callsPerDay: 1 })
    call.set(identity, { tenant: 'globex', authenticated: true, roles: [] })
    await run(await rig.started(), call)
    expect((await rig.memory.incrDaily('globex', KEY, 1)).count).to.equal(2)
    expect((await rig.memory.incrDaily('acme', KEY, 1)).count).to.equal(1)
  })

  it('never serves more calls than the limits, whatever is sent, refused or failed in between', async () => {
    const step = fc.record({ user: fc.constantFrom('ada', 'bob'), sent: fc.boolean() })
    let runs = 0
    await fc.assert(
      fc.asyncProperty(
        fc.array(step, { maxLength: 40 }),
        fc.integer({ min: 0, max: 8 }),
        fc.integer({ min: 0, max: 5 }),
        async (steps, ofTenant, ofUser) => {
          const key = `${KEY}${runs++}`
          const stage = await rig.started()
          const used = { tenant: 0, ada: 0, bob: 0 }
          await Promise.all(
            steps.map(async ({ user, sent }) => {
              const call = limited(
                { key, callsPerDay: ofTenant },
                { key: `${key}#user:${user}`, level: 'user', callsPerDay: ofUser },
              )
              const outcome = await run(stage, call, sent ? served : failed('BROKER_UNAVAILABLE', ''))
              if (outcome.kind !== 'completed') return
              used.tenant++
              used[user as 'ada' | 'bob']++
            }),
          )
          expect(used.tenant).to.be.at.most(ofTenant)
          expect(Math.max(used.ada, used.bob)).to.be.at.most(ofUser)
          // Nothing but what was served stays counted.
          expect(await rig.remaining(key)).to.equal(100 - used.tenant)
        },
      ),
    )
  })

  it('fails every limited call before the start', async () => {
    const stage = rig.create(quotasPlugin, { adapter: rig.memory })
    expect(await run(stage, limited({ callsPerDay: 1 }))).to.include({ kind: 'failed', code: 'INTERNAL' })
  })

  describe('explain', () => {
    async function explained(call: Call): Promise<string[]> {
      const { lines, outcome } = await explain(await rig.started(), call)
      expect(outcome.kind).to.equal('completed')
      return lines
    }

    it('names every limit', async () => {
      const lines = await explained(
        limited({ callsPerDay: 7, ratePerSec: 2 }, { key: `${KEY}#user:ada`, level: 'user', callsPerDay: 3 }),
      )
      expect(lines).to.deep.equal([
        `limit of the tenant: 2 calls per second, 2 at once; 7 calls per day, counted by a QuotaAdapter given in code as acme ${KEY}`,
        `limit of the user: 3 calls per day, counted by a QuotaAdapter given in code as acme ${KEY}#user:ada`,
        'how much of it is used is not known here',
      ])
    })

    it('says that no limit applies', async () => {
      expect(await explained(limited())).to.deep.equal(['no limit applies'])
    })
  })
})
