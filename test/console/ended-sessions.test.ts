// A session that has ended is not believed by what began before, at another gateway of the same store: a stream of events,
// a read that takes long, a change whose end comes late.
import { bind, type Clock, tokens } from '@svc/core'
import { expect } from 'chai'
import { type AdminRig, adminToken, ask, askUnfinished, startAdminRig } from '../app/admin/rig.js'
import { startRedis } from '../support/redis.js'
import { signalled } from '../support/signalled.js'
import { readEvents } from './event-reader.js'
import { beginSession, proofOf, type SessionClient, sendChange } from './session-client.js'

describe('a session that has ended', () => {
  let passed = 0
  const clock: Clock = { now: () => Date.now() + passed, monotonic: () => performance.now() + passed }

  const start = (redisUrl: string) =>
    startAdminRig({
      quotas: { adapter: 'redis', redisUrl },
      configure: (container) => bind(container, tokens.Clock, { useValue: clock }),
    })

  it('is over at another gateway for a stream, for a read that has begun and for a change that arrives late', async () => {
    passed = 0
    await using redis = await startRedis()
    await using one = await start(redis.url)
    await using two = await start(redis.url)
    two.service.open('esc_1')
    const [first, second] = [originOf(one), originOf(two)]
    const session = await beginSession(first, adminToken)
    const headers = { cookie: session.cookie }
    await using events = await readEvents(second, '?calls=none', headers)
    await events.next('status')
    const vote = await beginVote(second, session)
    const [begun, released] = [signalled(), signalled()]
    two.service.input = async () => {
      begun.resolve()
      await released.happened
      return { text: 'secret', sha256: 'a'.repeat(64) } as never
    }
    const reading = ask(second, '/api/escalations/esc_1/input', { headers })
    await begun.happened
    expect((await sendChange(first, session, '/api/session', { method: 'DELETE' })).status).to.equal(200)
    passed = 3_000
    released.resolve()
    const { status, text } = await reading
    expect([status, text.includes('secret')]).to.deep.equal([401, false])
    expect((await vote.finish()).status).to.equal(401)
    expect(two.service.cases.get('esc_1')?.votes).to.deep.equal([])
    expect((await events.next('end')).data).to.include({ error: 'UNAUTHENTICATED' })
  })
})

/** The console is open under this name. */
function originOf({ adminUrl }: AdminRig): string {
  return `http://localhost:${new URL(adminUrl).port}`
}

function beginVote(origin: string, { cookie, csrf, key }: SessionClient) {
  const path = '/api/escalations/esc_1/votes'
  const body = '{"vote":"approve"}'
  const proof = proofOf(key, { method: 'POST', body }, path)
  return askUnfinished(origin, path, { cookie, 'x-svc-csrf': csrf, 'x-svc-proof': proof }, body)
}
