import { type Call, denied, type KeyValueStore, type Outcome } from '@svc/core'
import { MemoryKeyValueStore } from '@svc/core/store'
import { expect } from 'chai'
import { testPasskey } from '../../../support/authenticator.js'
import { controlOf } from '../../../support/call.js'
import { ofEachTest } from '../../../support/parts.js'
import { idOf, reviewer, startRig, summaryOf, TestStore, TTL } from './rig.js'

const notSent = async (): Promise<Outcome> => denied('RATE_LIMITED', 'too many')

describe('an approval', () => {
  let id: string

  const rig = ofEachTest(() => startRig())
  beforeEach(async () => {
    id = idOf(await rig.call())
    await rig.service.vote(id, reviewer('ann'), { vote: 'approve' })
    rig.events.splice(0)
  })

  const isUsed = async () => (await rig.service.find(id))?.isUsed
  const names = () => rig.events.map(({ name }) => name)

  const send = (call: Call) => async (): Promise<Outcome> => {
    const refused = await controlOf(call).commitHolds()
    if (refused !== undefined) return refused
    rig.sent.push(call)
    return { kind: 'completed', status: 200, headers: {}, body: new Uint8Array() }
  }

  it('needs six operations of the store: to open it, to vote and to use it', async () => {
    const store = new TestStore()
    let operations = 0
    const counted = new Proxy<KeyValueStore>(store, {
      get(target, name) {
        const member: unknown = Reflect.get(target, name)
        if (typeof member !== 'function') return member
        if (['get', 'commit', 'scan'].includes(String(name))) operations++
        return member.bind(target)
      },
    })
    await using asked = await startRig({ store: counted, clock: store.clock })
    operations = 0
    const opened = idOf(await asked.call())
    await asked.service.vote(opened, reviewer('ann'), { vote: 'approve' })
    expect(summaryOf(await asked.call())).to.deep.equal({ code: 'sent' })
    expect(operations).to.equal(6)
  })

  it('is not used by a call that an inner stage refuses', async () => {
    expect(summaryOf(await rig.through(rig.make(), notSent))).to.deep.equal({ code: 'RATE_LIMITED' })
    expect(await isUsed()).to.equal(false)
    expect(names()).to.deep.equal([])
    expect(summaryOf(await rig.call())).to.deep.equal({ code: 'sent' })
  })

  it('is returned if it was used and the call was not sent', async () => {
    const call = rig.make()
    const outcome = await rig.through(call, async () => {
      expect(await controlOf(call).commitHolds()).to.equal(undefined)
      expect(await isUsed()).to.equal(true)
      controlOf(call).markSent('no')
      return notSent()
    })
    expect(summaryOf(outcome)).to.deep.equal({ code: 'RATE_LIMITED' })
    expect(await isUsed()).to.equal(false)
    expect(names()).to.deep.equal(['escalations/use', 'escalations/give-back'])
    expect(summaryOf(await rig.call())).to.deep.equal({ code: 'sent' })
  })

  it('lets one of many concurrent identical calls through', async () => {
    const outcomes = await Promise.all(Array.from({ length: 10 }, () => rig.call()))
    expect(outcomes.filter((outcome) => summaryOf(outcome).code === 'sent')).to.have.length(1)
    expect(rig.sent).to.have.length(1)
    const others = outcomes.map((outcome) => summaryOf(outcome).code).filter((code) => code !== 'sent')
    expect(new Set(others)).to.deep.equal(new Set(['ESCALATION_REJECTED']))
    expect(names().filter((name) => name === 'escalations/use')).to.have.length(1)
    expect(await isUsed()).to.equal(true)
  })

  it('is not returned by a call that did not use it', async () => {
    const late = rig.make()
    await rig.through(late, async () => {
      expect(summaryOf(await rig.call())).to.deep.equal({ code: 'sent' })
      const refused = await controlOf(late).commitHolds()
      if (refused !== undefined) return refused
      controlOf(late).markSent('no')
      return notSent()
    })
    expect(await isUsed()).to.equal(true)
  })

  it('is not returned by a call that may have used it, if another call used it', async () => {
    const memory = new TestStore()
    let isDown = false
    const commit: KeyValueStore['commit'] = (space, writes) =>
      isDown
        ? Promise.reject(new Error('down'))
        : MemoryKeyValueStore.prototype.commit.call(memory, space, writes)
    await using shaky = await startRig({ store: Object.assign(memory, { commit }) })
    const held = idOf(await shaky.call())
    await shaky.service.vote(held, reviewer('ann'), { vote: 'approve' })
    const unsure = shaky.make()
    await shaky.through(unsure, async () => {
      isDown = true
      const [commit] = await Promise.allSettled([controlOf(unsure).commitHolds()])
      expect(commit).to.have.nested.property('reason.code', 'STORE_UNAVAILABLE')
      isDown = false
      expect(summaryOf(await shaky.call())).to.deep.equal({ code: 'sent' })
      return notSent()
    })
    expect(await shaky.service.find(held)).to.include({ isUsed: true })
  })

  describe('that a call with an idempotency key has used', () => {
    const request = { idempotencyKey: 'k-1' }

    beforeEach(async () => {
      expect(summaryOf(await rig.call({ request }))).to.deep.equal({ code: 'sent' })
    })

    it('lets a call with the same key reach the stored response, with and without the id', async () => {
      const replay: Outcome = {
        kind: 'completed',
        status: 200,
        headers: {},
        body: new Uint8Array(),
      }
      for (const headers of [{ 'x-escalation-id': id }, {}] as Record<string, string>[]) {
        expect(await rig.through(rig.make({ request, headers }), async () => replay)).to.equal(replay)
      }
      expect(await isUsed()).to.equal(true)
      expect(names()).to.deep.equal(['escalations/use'])
    })

    it('does not let the call be sent again', async () => {
      const call = rig.make({ request })
      expect(summaryOf(await rig.through(call, send(call)))).to.deep.equal({
        code: 'ESCALATION_REJECTED',
        id,
        status: 'approved',
      })
      expect(rig.sent).to.have.length(1)
      expect(await isUsed()).to.equal(true)
    })

    it('says what escalates again if no response is stored: another key, or a call without the id', async () => {
      const call = rig.make({ request })
      expect(await rig.through(call, send(call)))
        .to.have.property('message')
        .that.matches(/Repeated under another idempotency key, it waits for another approval\.$/)
      const headers = { 'x-escalation-id': id }
      const other = await rig.call({ request: { idempotencyKey: 'k-2' }, headers })
      expect(other).to.have.deep.property('denial', {
        level: 'gateway',
        type: 'security',
        reason: 'egress_violation',
      })
      expect(other)
        .to.have.property('message')
        .that.matches(/Repeated without x-escalation-id, it waits for another approval\.$/)
      expect(summaryOf(await rig.call({ request: { idempotencyKey: 'k-2' } }))).to.include({
        code: 'ESCALATION_PENDING',
      })
    })

    it('does not apply to another key, or to a call without one', async () => {
      for (const other of [{ idempotencyKey: 'k-2' }, { idempotencyKey: null }]) {
        const headers = { 'x-escalation-id': id }
        expect(summaryOf(await rig.call({ request: other, headers }))).to.include({
          code: 'ESCALATION_REJECTED',
        })
        expect(summaryOf(await rig.call({ request: other }))).to.include({ code: 'ESCALATION_PENDING' })
      }
      expect(rig.sent).to.have.length(1)
    })
  })
})

/** The policy is reloaded between the vote and the call's repetition. */
describe('an approval under another rule', () => {
  const passkeys = [{ user: 'ann@acme.example', id: 'YW5u', publicKey: testPasskey().publicKey }]
  const approvalSets = { treasury: { users: ['ann@acme.example'], roles: [] } }
  const policy = { host: { reviewers: { roles: ['reviewer'], approvalSets, passkeys } } }

  for (const [what, rule, isSent] of [
    ['lets its call through if only times have changed', { ttlMs: 2 * TTL, remindAfterMs: 60_000 }, true],
    [
      'lets its call through if only what happens without votes has changed',
      { timeoutAction: 'auto_approve' },
      true,
    ],
    ['sends nothing that now needs a passkey', { requiresPasskey: true }, false],
    ['sends nothing that now needs more people', { minApprovals: 2 }, false],
    ['sends nothing that now needs a role', { requiredRoles: ['treasurer'] }, false],
    ['sends nothing that others decide now', { approvalSetId: 'treasury' }, false],
    ['sends nothing that somebody may veto now', { vetoRoles: ['legal'] }, false],
  ] as const) {
    it(what, async () => {
      const store = new TestStore()
      await using before = await startRig({ store, policy })
      const id = idOf(await before.call())
      await before.service.vote(id, reviewer('ann'), { vote: 'approve' })
      await using after = await startRig({ store, policy, rule })
      const outcome = summaryOf(await after.call())
      expect(outcome.code).to.equal(isSent ? 'sent' : 'ESCALATION_PENDING')
      expect(after.sent).to.have.length(isSent ? 1 : 0)
      if (!isSent) expect(outcome.id).to.not.equal(id)
    })
  }
})
