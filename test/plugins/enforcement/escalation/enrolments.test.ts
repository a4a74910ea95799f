// Passkeys that reviewers register, and others confirm.

import type { Write } from '@svc/core'
import { type Reviewer, services } from '@svc/core'
import { canonicalize, sha256Hex } from '@svc/core/json'
import { expect } from 'chai'
import { type TestPasskey, testPasskey } from '../../../support/authenticator.js'
import { rejectionOf } from '../../../support/rejection.js'
import { TemporaryDir } from '../../../support/temporary-dir.js'
import { caller, type EscalationRig, idOf, type RigOptions, reviewer, startRig, TestStore } from './rig.js'

const origin = 'http://localhost:9090'
const ann = reviewer('ann')
const bob = reviewer('bob')
const cid = reviewer('cid')

/** Ann's passkey is in the policy. */
const annsKey = testPasskey('YW5ucy1wYXNza2V5LWlk')

const sets = { treasury: { users: ['ann@acme.example', 'bob@acme.example'], roles: [] } }

function start(options: RigOptions = {}): Promise<EscalationRig> {
  const passkeys = [{ user: 'ann@acme.example', id: annsKey.id, publicKey: annsKey.publicKey }]
  return startRig({
    policy: { host: { reviewers: { roles: ['reviewer'], approvalSets: sets, passkeys } } },
    bindings: [[services.approvalPage, (id: string) => `${origin}/console/approvals/${id}`]],
    ...options,
    rule: { requiresPasskey: true, ...options.rule },
  })
}

/** Registers the passkey for the reviewer, and returns the id of what waits. */
async function enrol(rig: EscalationRig, who: Reviewer, own: TestPasskey, setId?: string): Promise<string> {
  const enrolments = await rig.service.enrolments()
  const { challenge, nonce } = await enrolments.challenge(who, setId)
  const { id } = await enrolments.enrol(who, setId, { nonce, ...own.register(challenge, origin) })
  return id
}

async function vote(
  rig: EscalationRig,
  who: Reviewer,
  own: TestPasskey,
  id: string,
  choice: 'approve' | 'reject' = 'approve',
) {
  const { challenge, nonce } = await rig.service.challenge(who, [{ id, vote: choice }])
  const passkey = { nonce, credentialId: own.id, ...own.respond(challenge, origin) }
  return rig.service.vote(id, who, { vote: choice, passkey })
}

const codeOf = async (asked: Promise<unknown>) => (await rejectionOf(asked)) as { code: string }

describe('a passkey that a reviewer registers', () => {
  const bobsKey = testPasskey('Ym9icy1wYXNza2V5LWlk')

  it('counts once another reviewer has confirmed it with a passkey, until it is revoked', async () => {
    await using rig = await start()
    const id = await enrol(rig, bob, bobsKey)
    const call = idOf(await rig.call())
    expect(await codeOf(vote(rig, bob, bobsKey, call))).to.have.property('code', 'PASSKEY_REQUIRED')
    const confirmed = await vote(rig, ann, annsKey, id)
    expect(confirmed).to.deep.include({ status: 'approved', decidedBy: 'votes' })
    expect(await vote(rig, bob, bobsKey, call)).to.include({ status: 'approved' })
    const enrolments = await rig.service.enrolments()
    await enrolments.revoke(id, bob, false)
    const next = idOf(await rig.call({ args: { n: 2 } }))
    expect(await codeOf(vote(rig, bob, bobsKey, next))).to.have.property('code', 'PASSKEY_REQUIRED')
  })

  it('is on record with what those who confirm it sign, by the hash', async () => {
    await using rig = await start()
    const id = await enrol(rig, bob, bobsKey)
    await vote(rig, ann, annsKey, id)
    await (await rig.service.enrolments()).revoke(id, bob, false)
    const steps = rig.events.map(({ name, facts, inputSha256 }) => [name, facts?.['enrolment'], inputSha256])
    const enrolment = {
      credential_id: bobsKey.id,
      public_key: bobsKey.publicKey,
      reviewer: 'bob@acme.example of acme',
    }
    const hash = sha256Hex(canonicalize(enrolment))
    expect(steps).to.deep.equal([
      ['escalations/open', enrolment, hash],
      ['escalations/vote', undefined, hash],
      ['escalations/decide', undefined, hash],
      ['escalations/revoke', enrolment, hash],
    ])
  })

  it('is confirmed by nobody without a passkey, by its owner, or by somebody who has no vote', async () => {
    await using rig = await start()
    const id = await enrol(rig, bob, bobsKey)
    const agents = testPasskey('YWdlbnRzLXBhc3NrZXk')
    for (const [who, own] of [
      [cid, agents],
      [bob, bobsKey],
      [reviewer('BOB'), bobsKey],
      [reviewer('ann', [], 'globex'), annsKey],
      [{ kind: 'admin' }, annsKey],
    ] as const) {
      expect(await codeOf(vote(rig, who, own, id)))
        .to.have.property('code')
        .that.matches(/PASSKEY_REQUIRED|NOT_A_REVIEWER/)
      expect(await codeOf(rig.service.vote(id, who, { vote: 'approve' }))).to.have.property('code')
    }
    expect(await rig.service.find(id)).to.include({ status: 'pending' })
  })

  it('is registered only by a person who has a vote there, for a policy whose votes need one', async () => {
    await using rig = await start()
    const outsider: Reviewer = { kind: 'user', identity: { ...caller, user: 'out@acme.example' } }
    for (const [who, setId] of [
      [{ kind: 'admin' }, undefined],
      [outsider, undefined],
      [cid, 'treasury'],
      [cid, '__proto__'],
    ] as const) {
      expect(await codeOf(enrol(rig, who, bobsKey, setId))).to.have.property('code', 'NOT_A_REVIEWER')
    }
    await using plain = await startRig({})
    expect(await codeOf(enrol(plain, bob, bobsKey))).to.have.property('code', 'NOT_A_REVIEWER')
  })

  it('needs the response of an authenticator to the challenge of this person', async () => {
    await using rig = await start()
    const enrolments = await rig.service.enrolments()
    const { challenge, nonce } = await enrolments.challenge(bob, undefined)
    const annsChallenge = await enrolments.challenge(ann, undefined)
    const right = { nonce, ...bobsKey.register(challenge, origin) }
    for (const [what, given] of [
      ['of another person', { nonce, ...bobsKey.register(annsChallenge.challenge, origin) }],
      ['of another origin', { nonce, ...bobsKey.register(challenge, 'http://evil.example:9090') }],
      ['of another port', { nonce, ...bobsKey.register(challenge, 'http://localhost:9091') }],
      ['without the user', { nonce, ...bobsKey.register(challenge, origin, 0x04) }],
      ['without verifying the user', { nonce, ...bobsKey.register(challenge, origin, 0x01) }],
      ['with another id', { ...right, credentialId: testPasskey('b3RoZXItaWQtb3RoZXI').id }],
      ['with another nonce', { ...right, nonce: annsChallenge.nonce }],
      ['with an assertion', { ...right, clientDataJson: bobsKey.respond(challenge, origin).clientDataJson }],
      ['with rubbish', { ...right, attestationObject: 'AAAA' }],
    ] as const) {
      expect(await codeOf(enrolments.enrol(bob, undefined, given)), what).to.have.property(
        'code',
        'PASSKEY_REQUIRED',
      )
    }
    expect(rig.events).to.deep.equal([])
    await enrolments.enrol(bob, undefined, right)
  })

  it('is registered once, also by another person, and not after the time of its challenge', async () => {
    await using rig = await start()
    await enrol(rig, bob, bobsKey)
    expect(await codeOf(enrol(rig, cid, bobsKey))).to.have.property('code', 'ALREADY_REGISTERED')
    expect(await codeOf(enrol(rig, bob, annsKey))).to.have.property('code', 'ALREADY_REGISTERED')
    const enrolments = await rig.service.enrolments()
    const { challenge, nonce } = await enrolments.challenge(cid, undefined)
    rig.clock.advance(12 * 60_000)
    const late = enrolments.enrol(cid, undefined, {
      nonce,
      ...testPasskey('Y2lkcy1wYXNza2V5').register(challenge, origin),
    })
    expect(await codeOf(late)).to.have.property('code', 'PASSKEY_REQUIRED')
  })

  it('has another code with another key under the same id, which a program can choose', async () => {
    await using rig = await start()
    const codeOf = async (own: TestPasskey) => {
      const id = await enrol(rig, bob, own)
      const { enrolment } = (await rig.service.find(id)) ?? {}
      await (await rig.service.enrolments()).revoke(id, bob, false)
      return enrolment?.code
    }
    expect(await codeOf(bobsKey)).to.match(/^[0-9a-f]{4}( [0-9a-f]{4}){3}$/)
    expect(await codeOf(testPasskey(bobsKey.id))).to.not.equal(await codeOf(bobsKey))
  })

  it('counts only for the votes of those who confirmed it', async () => {
    await using rig = await start({ rule: { approvalSetId: 'treasury' } })
    const id = await enrol(rig, bob, bobsKey, 'treasury')
    await vote(rig, ann, annsKey, id)
    expect(await vote(rig, bob, bobsKey, idOf(await rig.call()))).to.include({ status: 'approved' })
    await using tenant = await start()
    await vote(tenant, ann, annsKey, await enrol(tenant, bob, bobsKey, 'treasury'))
    const call = idOf(await tenant.call())
    expect(await codeOf(vote(tenant, bob, bobsKey, call))).to.have.property('code', 'PASSKEY_REQUIRED')
  })

  it('is decided by the rule of calls, and rejected after a day', async () => {
    await using rig = await start({ rule: { requiredRoles: ['treasurer'], timeoutAction: 'auto_approve' } })
    const id = await enrol(rig, bob, bobsKey)
    expect(await vote(rig, ann, annsKey, id)).to.include({ status: 'pending' })
    rig.clock.advance(25 * 3_600_000)
    expect(await rig.service.find(id)).to.include({ status: 'rejected', decidedBy: 'expiry' })
  })

  it('is revoked by its owner or an operator, and cannot let a call through', async () => {
    await using rig = await start()
    const id = await enrol(rig, bob, bobsKey)
    await vote(rig, ann, annsKey, id)
    const enrolments = await rig.service.enrolments()
    expect(await codeOf(enrolments.revoke(id, cid, false))).to.have.property('code', 'NOT_A_REVIEWER')
    const named = rig.call({ headers: { 'x-escalation-id': id } })
    expect(await rejectionOf(named)).to.have.property('code', 'BAD_REQUEST')
    await enrolments.revoke(id, { kind: 'admin' }, true)
    expect(await codeOf(enrolments.revoke(id, bob, false))).to.have.property('code', 'DECIDED')
    expect(await codeOf(enrolments.revoke(idOf(await rig.call()), bob, true))).to.have.property(
      'code',
      'NOT_FOUND',
    )
  })

  it('is confirmed by nobody once it is revoked', async () => {
    await using rig = await start()
    const id = await enrol(rig, bob, bobsKey)
    await (await rig.service.enrolments()).revoke(id, bob, false)
    expect(await codeOf(vote(rig, ann, annsKey, id))).to.have.property('code', 'DECIDED')
    expect(await rig.service.find(id)).to.include({ status: 'rejected' })
  })

  it('counts at every gateway of the store, and after a restart', async () => {
    using dir = new TemporaryDir()
    const context = { stateDir: dir.path }
    {
      await using one = await start({ context })
      await using two = await start({ context })
      await vote(two, ann, annsKey, await enrol(one, bob, bobsKey))
      const id = idOf(await two.call())
      expect(await vote(one, bob, bobsKey, id)).to.include({ status: 'approved' })
    }
    await using later = await start({ context })
    const id = idOf(await later.call({ args: { n: 2 } }))
    expect(await vote(later, bob, bobsKey, id)).to.include({ status: 'approved' })
    const [enrolled] = await later.service.list({ isEnrolment: true, limit: 10 })
    await (await later.service.enrolments()).revoke(enrolled?.id ?? '', bob, false)
    const next = idOf(await later.call({ args: { n: 3 } }))
    expect(await codeOf(vote(later, bob, bobsKey, next))).to.have.property('code', 'PASSKEY_REQUIRED')
  })

  it('is kept beyond the time of decided escalations', async () => {
    await using rig = await start()
    await vote(rig, ann, annsKey, await enrol(rig, bob, bobsKey))
    rig.clock.advance(400 * 24 * 3_600_000)
    expect(await vote(rig, bob, bobsKey, idOf(await rig.call()))).to.include({ status: 'approved' })
  })

  it('is found without reading the whole store for each of several votes, or for a proof', async () => {
    const store = new TestStore()
    let pages = 0
    const scan = store.scan.bind(store)
    store.scan = (...given) => {
      pages++
      return scan(...given)
    }
    await using rig = await start({ store })
    await vote(rig, ann, annsKey, await enrol(rig, bob, bobsKey))
    const calls = [1, 2, 3].map(async (n) => idOf(await rig.call({ args: { n } })))
    const votes = (await Promise.all(calls)).map((id) => ({ id, vote: 'approve' as const }))
    pages = 0
    const { challenge, nonce, batch = [], credentials } = await rig.service.challenge(bob, votes)
    expect(credentials).to.deep.equal([bobsKey.id])
    expect(pages).to.equal(1)
    const passkey = { nonce, credentialId: bobsKey.id, ...bobsKey.respond(challenge, origin), batch }
    for (const { id, ...given } of votes) {
      expect(await rig.service.vote(id, bob, { ...given, passkey })).to.include({ status: 'approved' })
    }
    expect(pages).to.equal(1)
  })

  it('is found beside an escalation that cannot be read', async () => {
    const store = new TestStore()
    await using rig = await start({ store })
    await vote(rig, ann, annsKey, await enrol(rig, bob, bobsKey))
    const broken = await store.entries.get(idOf(await rig.call({ args: { n: 2 } })))
    if (broken === undefined) expect.fail('it is not stored')
    await store.entries.replace({ ...broken, version: broken.version + 1, body: '{' }, broken)
    expect(await vote(rig, bob, bobsKey, idOf(await rig.call()))).to.include({ status: 'approved' })
  })

  it('is one of ten of its owner, with those that wait', async () => {
    await using rig = await start()
    const add = (n: number) => enrol(rig, bob, testPasskey(Buffer.from(`passkey ${n}`).toString('base64url')))
    const ids = []
    for (let n = 0; n < 10; n++) ids.push(await add(n))
    expect(await codeOf(add(10)))
      .to.have.property('message')
      .that.contains('10 passkeys')
    await (await rig.service.enrolments()).revoke(ids[0] ?? '', bob, false)
    await add(10)
  })

  it('is registered already if two tabs register it at once', async () => {
    const store = new TestStore()
    const commit = store.commit.bind(store)
    // Each opening meets another one of the same call.
    store.commit = async (space, writes) => {
      const [entry, newest] = writes
      const other = [{ ...newest, value: 'entry/other', version: 'other', expect: undefined }] as Write[]
      if (entry?.key.startsWith('entry/') && entry.expect === null)
        await commit(space, [{ ...entry, key: 'entry/other' }, ...other])
      return commit(space, writes)
    }
    await using rig = await start({ store })
    expect(await codeOf(enrol(rig, bob, bobsKey)))
      .to.have.property('message')
      .that.contains('registered already')
  })
})
