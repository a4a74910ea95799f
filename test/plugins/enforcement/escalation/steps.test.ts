// While nobody decides, reviewers are reminded and a second set is asked, each once, whatever gateways share the store and
// however their clock is set.

import type { KeyValueStore, Notice } from '@svc/core'
import type { RedisKeyValueStore } from '@svc/core/redis'
import { enforcementPlugin, isVoteError } from '@svc/plugin-enforcement'
import { expect } from 'chai'
import fc from 'fast-check'
import { FakeClock } from 'svc-sdk/testing'
import { checkSection } from '../../../support/check.js'
import { ofSuite } from '../../../support/parts.js'
import { startRedis } from '../../../support/redis.js'
import { rejectionOf } from '../../../support/rejection.js'
import {
  idOf,
  MINUTE,
  rule as plainRule,
  type RigOptions,
  redisStore,
  reviewer,
  startRig,
  TestStore,
  TTL,
} from './rig.js'

const seed = 11
const steps = { remindAfterMs: 5 * MINUTE, secondSet: { afterMs: 10 * MINUTE, setId: 'managers' } }
const policy: NonNullable<RigOptions['policy']> = {
  host: { reviewers: { roles: ['reviewer'], approvalSets: { managers: { roles: ['manager'] } } } },
}
const manager = reviewer('max', ['manager'], 'globex')
const typesOf = (notices: readonly Notice[]) => notices.map(({ type }) => type)

const action = fc.oneof(
  { weight: 3, arbitrary: fc.record({ kind: fc.constant('read' as const), on: fc.nat({ max: 1 }) }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('vote' as const), on: fc.nat({ max: 1 }) }) },
  {
    weight: 2,
    /** Minutes by which the clock is set, back too. */
    arbitrary: fc.record({ kind: fc.constant('clock' as const), by: fc.integer({ min: -8, max: 8 }) }),
  },
)
type Action = typeof action extends fc.Arbitrary<infer T> ? T : never

/** What two gateways have to send. */
class Expected {
  readonly sent: string[] = []
  #steps: readonly { type: string; at: number }[]
  isDecided = false

  constructor(openedAt: number) {
    this.#steps = [
      { type: 'escalation.reminder', at: openedAt + steps.remindAfterMs },
      { type: 'escalation.second_set', at: openedAt + steps.secondSet.afterMs },
      { type: 'escalation.decided', at: openedAt + TTL },
    ]
  }

  read(now: number): void {
    const last = this.#steps.findLast(({ at }) => at <= now)
    if (last === undefined) return
    this.#steps = this.#steps.slice(this.#steps.indexOf(last) + 1)
    this.sent.push(last.type)
    if (last.type === 'escalation.decided') this.isDecided = true
  }

  get mayManagerVote(): boolean {
    return this.sent.at(-1) === 'escalation.second_set'
  }
}

async function run(
  batches: readonly (readonly Action[])[],
  store: (clock: FakeClock) => NonNullable<RigOptions['store']>,
) {
  const clock = new FakeClock()
  const options = { rule: { ...steps, minApprovals: 9, minRejections: 9 }, policy, clock }
  await using one = await startRig({ ...options, store: store(clock) })
  await using two = await startRig({ ...options, store: store(clock) })
  const id = idOf(await one.call())
  const expected = new Expected(clock.now())
  let hasVoted = false
  for (const batch of batches) {
    for (const each of batch) if (each.kind === 'clock') clock.set(clock.now() + each.by * MINUTE)
    const asking = batch.filter(({ kind }) => kind !== 'clock')
    if (asking.length > 0) expected.read(clock.now())
    const mayVote = expected.mayManagerVote && !hasVoted
    const votes = await Promise.all(
      asking.map(async ({ kind, on }: { kind: string; on?: number }) => {
        const { service } = on === 0 ? one : two
        if (kind === 'read') return void (await service.find(id))
        return service.vote(id, manager, { vote: 'approve' }).then(
          () => true,
          (error: unknown) => (isVoteError(error) ? false : expect.fail(String(error))),
        )
      }),
    )
    const counted = votes.filter((vote) => vote === true).length
    expect(counted).to.equal(mayVote && votes.includes(true) ? 1 : 0)
    if (mayVote && asking.some(({ kind }) => kind === 'vote')) expect(counted).to.equal(1)
    hasVoted ||= counted > 0
  }
  const sent = typesOf([...one.notices, ...two.notices]).filter((type) => type !== 'escalation.opened')
  expect(sent.toSorted()).to.deep.equal(expected.sent.toSorted())
  const recorded = [...one.events, ...two.events].map(({ name }) => name)
  const count = (name: string) => recorded.filter((one) => one === `escalations/${name}`).length
  const has = (type: string) => Number(expected.sent.includes(type))
  expect([count('remind'), count('second-set'), count('expire')]).to.deep.equal(
    ['escalation.reminder', 'escalation.second_set', 'escalation.decided'].map(has),
  )
}

describe('the steps of an escalation that nobody decides', () => {
  const batches = fc.array(fc.array(action, { minLength: 1, maxLength: 4 }), { maxLength: 14 })

  it('are taken once each by two gateways, whatever their clock does: in memory', async () => {
    const property = fc.asyncProperty(batches, async (given) => {
      let store: KeyValueStore | undefined
      await run(given, (clock) => {
        store ??= Object.assign(new TestStore(clock), { now: () => clock.now() })
        return store
      })
    })
    await fc.assert(property, { seed, numRuns: 200 })
  })

  describe('on one Redis', () => {
    const server = ofSuite(() => startRedis())

    it('are taken once each by two gateways', async () => {
      const property = fc.asyncProperty(batches, async (given) => {
        await server.send('FLUSHALL')
        const stores: RedisKeyValueStore[] = []
        const opened = (clock: FakeClock) => {
          const store = redisStore(server.url, clock)
          stores.push(store)
          return store
        }
        try {
          await run(given, opened)
        } finally {
          await Promise.all(stores.map((store) => store.close()))
        }
      })
      await fc.assert(property, { seed, numRuns: 20 })
    })
  })

  it('let the second set vote beside the reviewers from its time on, and show it', async () => {
    await using rig = await startRig({ rule: { ...steps, minApprovals: 2 }, policy })
    const id = idOf(await rig.call())
    const vote = () => rig.service.vote(id, manager, { vote: 'approve' })
    expect(await rejectionOf(vote())).to.have.property('code', 'NOT_A_REVIEWER')
    expect(await rig.service.find(id)).to.not.have.property('secondSetId')
    rig.clock.advance(10 * MINUTE)
    expect(await vote()).to.include({ status: 'pending', secondSetId: 'managers' })
    expect(await rig.service.vote(id, reviewer('ann'), { vote: 'approve' })).to.include({
      status: 'approved',
    })
    const notice = rig.notices.find(({ type }) => type === 'escalation.second_set')
    expect(notice?.data).to.include({ escalation_id: id, approval_set_id: 'managers' })
  })

  it('are tried again if they cannot be recorded', async () => {
    let isDown = true
    await using rig = await startRig({
      rule: steps,
      policy,
      record: ({ name }) => {
        if (isDown && name === 'escalations/remind') throw new Error('no log')
      },
    })
    const id = idOf(await rig.call())
    rig.clock.advance(5 * MINUTE)
    expect(await rejectionOf(rig.service.find(id))).to.have.property('message', 'no log')
    isDown = false
    await rig.service.find(id)
    expect(typesOf(rig.notices)).to.deep.equal(['escalation.opened', 'escalation.reminder'])
  })
})

describe('a second set that cannot vote', () => {
  const said = (values: NonNullable<RigOptions['policy']>) =>
    checkSection(
      enforcementPlugin,
      { escalate_on: ['egress_violation'] },
      {
        escalationRule: { ...plainRule, ...steps },
        ...values,
      },
    )
  const path = 'mistake security.side_effects.human_escalation.second_set.approval_set_id'

  it('is found at load', () => {
    const host = { reviewers: { roles: ['reviewer'], approvalSets: {} } }
    expect(said({ ...policy, knowsUsers: true })).to.deep.equal([])
    expect(said({ host, knowsUsers: true })).to.deep.equal([
      `${path}: there is no "managers" in admin.approval_sets; known: none`,
    ])
    expect(said(policy)).to.deep.equal([
      `${path}: none of its members can vote: without authn.oidc only the admin token votes, which is one person without roles`,
    ])
  })
})
