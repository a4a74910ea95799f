// In any order of calls, votes and time on two gateways that share a store, no call is sent without an approval of
// its own, each approval lets one call through, and the log has every step.
import type { GatewayEvent } from '@svc/core'
import type { RedisKeyValueStore } from '@svc/core/redis'
import { type Escalation, isVoteError } from '@svc/plugin-enforcement'
import { expect } from 'chai'
import fc from 'fast-check'
import { FakeClock } from 'svc-sdk/testing'
import { controlOf } from '../../../support/call.js'
import { ofSuite } from '../../../support/parts.js'
import { startRedis } from '../../../support/redis.js'
import {
  caller,
  type EscalationRig,
  MINUTE,
  type RigOptions,
  redisStore,
  reviewer,
  startRig,
  summaryOf,
  TestStore,
  TTL,
} from './rig.js'

const roles = ['legal', 'ops']

const oncall = { ...caller, roles: ['oncall'] }
const emergency = { roles: ['oncall'], maxOpenReviews: 2 }

const gateway = fc.integer({ min: 0, max: 1 })
const action = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.record({
      kind: fc.constant('call' as const),
      gateway,
      /** The number of the call, of two. */
      n: fc.integer({ min: 0, max: 1 }),
      key: fc.constantFrom(null, 'k1', 'k2'),
      isSent: fc.boolean(),
      isEmergency: fc.boolean(),
    }),
  },
  {
    weight: 5,
    arbitrary: fc.record({
      kind: fc.constant('vote' as const),
      gateway,
      by: fc.integer({ min: 0, max: 4 }),
      vote: fc.constantFrom('approve' as const, 'approve' as const, 'reject' as const),
      roles: fc.subarray(roles),
      /** The number of the escalation, of those that exist. */
      on: fc.nat({ max: 3 }),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constant('time' as const),
      ms: fc.constantFrom(MINUTE, TTL / 2, TTL),
    }),
  },
)

type Action = typeof action extends fc.Arbitrary<infer T> ? T : never

const rules = fc.record({
  strategy: fc.constantFrom('single_approver' as const, 'human_quorum' as const),
  timeoutAction: fc.constantFrom('auto_reject' as const, 'auto_approve' as const),
  minApprovals: fc.integer({ min: 1, max: 3 }),
  minRejections: fc.integer({ min: 1, max: 3 }),
  requiredRoles: fc.subarray(roles),
  vetoRoles: fc.subarray(roles),
  emergency: fc.constantFrom(emergency, { roles: ['other'], maxOpenReviews: 2 }),
})

async function act(rigs: readonly EscalationRig[], clock: FakeClock, step: Action): Promise<void> {
  if (step.kind === 'time') return clock.advance(step.ms)
  const rig = rigs[step.gateway]
  if (rig === undefined) throw new Error('no such gateway')
  if (step.kind === 'vote') {
    const found = (await rig.service.list({ limit: 9 }))[step.on]
    if (found === undefined) return
    await rig.service
      .vote(found.id, reviewer(`r${step.by}`, step.roles), { vote: step.vote })
      .catch((error: unknown) => {
        if (!isVoteError(error)) throw error
      })
    return
  }
  const headers: Record<string, string> = step.isEmergency
    ? { 'x-escalation-emergency': 'the site is down' }
    : {}
  const options = { args: { n: step.n }, request: { idempotencyKey: step.key }, headers, caller: oncall }
  if (step.isSent) await rig.call(options)
  else {
    const call = rig.make(options)
    await rig.through(call, async () => {
      const refused = await controlOf(call).commitHolds()
      if (refused === undefined) controlOf(call).markSent('no')
      return refused ?? { kind: 'denied', code: 'RATE_LIMITED', message: 'after all' }
    })
  }
}

const count = (events: readonly GatewayEvent[], step: string) =>
  events.filter(({ name, error }) => name === `escalations/${step}` && error === undefined).length

/** Everything that must hold of one escalation, whatever led to it. */
function checkStory(events: readonly GatewayEvent[], timeoutAction: string): void {
  const uses = count(events, 'use') - count(events, 'give-back')
  expect(uses).to.be.within(0, 1)
  expect(count(events, 'open')).to.equal(1)
  const decisions = events.filter(({ name }) => /decide|expire|emergency/.test(name))
  expect(decisions.length).to.be.below(2)
  const used = events.findIndex(({ name }) => name === 'escalations/use')
  if (used === -1) return
  const [decision] = decisions
  if (decision === undefined) throw new Error('used before it was decided')
  expect(events.indexOf(decision)).to.be.below(used)
  expect(decision.decision).to.equal('allow')
  if (decision.name === 'escalations/expire') expect(timeoutAction).to.equal('auto_approve')
}

const isOpen = (found: Escalation) => found.emergency?.review === 'open'

async function run(
  rule: NonNullable<RigOptions['rule']>,
  batches: readonly (readonly Action[])[],
  store: (clock: FakeClock) => NonNullable<RigOptions['store']>,
): Promise<void> {
  const clock = new FakeClock()
  const events: GatewayEvent[] = []
  const record = (event: GatewayEvent) => {
    events.push(event)
  }
  await using one = await startRig({ rule, clock, store: store(clock), record })
  await using two = await startRig({ rule, clock, store: store(clock), record })
  const rigs = [one, two]
  // What is in one batch happens at once.
  for (const batch of batches) await Promise.all(batch.map((step) => act(rigs, clock, step)))

  const stories = new Map<string | undefined, GatewayEvent[]>()
  for (const event of events) {
    stories.set(event.escalationId, [...(stories.get(event.escalationId) ?? []), event])
  }
  for (const story of stories.values()) checkStory(story, rule.timeoutAction ?? '')
  const sent = one.sent.length + two.sent.length
  expect(sent).to.equal(count(events, 'use') - count(events, 'give-back'))
  const listed = await one.service.list({ limit: 99 })
  expect(listed.length).to.equal(stories.size)
  for (const found of listed) {
    const story = stories.get(found.id) ?? []
    expect(found.isUsed).to.equal(count(story, 'use') > count(story, 'give-back'))
    const late = story.filter(({ error }) => error !== undefined).length
    expect(count(story, 'vote') - late).to.equal(found.votes.length)
    expect(count(story, 'review')).to.equal(Number(found.emergency !== undefined && !isOpen(found)))
    const isApproved =
      found.emergency?.review === 'confirmed' || (found.status === 'approved' && found.decidedBy === 'votes')
    if (!isApproved || rule.strategy !== 'human_quorum') continue
    const approvals = found.votes.filter(({ vote }) => vote === 'approve')
    expect(approvals.length).to.be.at.least(rule.minApprovals ?? 0)
    for (const role of rule.requiredRoles ?? []) {
      expect(approvals.some((vote) => vote.roles.includes(role))).to.equal(true)
    }
  }
  const open = listed.filter(isOpen)
  expect(open.length).to.be.at.most(
    rule.emergency?.roles.includes('oncall') === true ? emergency.maxOpenReviews : 0,
  )
  expect(await one.service.list({ review: 'open', limit: 99 })).to.deep.equal(open)
  expect(summaryOf(await one.call({ findings: [] }))).to.deep.equal({ code: 'sent' })
}

describe('votes, calls and time in any order, on two gateways', () => {
  const batches = fc.array(fc.array(action, { minLength: 1, maxLength: 4 }), { maxLength: 12 })

  it('let no call through without its approval, and use each approval once: in memory', async () => {
    await fc.assert(
      fc.asyncProperty(rules, batches, async (rule, steps) => {
        let store: TestStore | undefined
        await run(rule, steps, (clock) => (store ??= new TestStore(clock)))
      }),
      { numRuns: 300 },
    )
  })

  describe('on one Redis', () => {
    const server = ofSuite(() => startRedis())

    it('let no call through without its approval, and use each approval once', async () => {
      await fc.assert(
        fc.asyncProperty(rules, batches, async (rule, steps) => {
          await server.send('FLUSHALL')
          const stores: RedisKeyValueStore[] = []
          const opened = (clock: FakeClock) => {
            const store = redisStore(server.url, clock)
            stores.push(store)
            return store
          }
          try {
            await run(rule, steps, opened)
          } finally {
            await Promise.all(stores.map((store) => store.close()))
          }
        }),
        { numRuns: 40 },
      )
    })
  })
})
