// A vote under `require: passkey`.
import { services } from '@svc/core'
import { enforcementPlugin } from '@svc/plugin-enforcement'
import { expect } from 'chai'
import { type TestPasskey, testPasskey } from '../../../support/authenticator.js'
import { checkSection } from '../../../support/check.js'
import { rejectionOf } from '../../../support/rejection.js'
import { type EscalationRig, idOf, rule as plainRule, type RigOptions, reviewer, startRig } from './rig.js'

const origin = 'http://localhost:9090'
const ann = reviewer('ann')
const bob = reviewer('bob')

interface Changes {
  readonly origin?: string
  readonly flags?: number
  readonly signed?: Partial<{ vote: 'approve' | 'reject'; comment: string }>
  readonly by?: TestPasskey
  readonly nonce?: string
}

async function start(own: TestPasskey, more: RigOptions = {}): Promise<EscalationRig> {
  const passkeys = [
    { user: 'ann@acme.example', id: own.id, publicKey: own.publicKey },
    { user: 'u-bob', id: 'Ym9iLWNyZWRlbnRpYWw', publicKey: testPasskey().publicKey },
  ]
  return startRig({
    rule: { requiresPasskey: true },
    policy: { host: { reviewers: { roles: ['reviewer'], approvalSets: {}, passkeys } } },
    bindings: [[services.approvalPage, (id: string) => `${origin}/console/approvals/${id}`]],
    ...more,
  })
}

/** Ann's vote to approve, signed with changes. */
async function vote(rig: EscalationRig, own: TestPasskey, id: string, changes: Changes = {}) {
  const given = { vote: 'approve', comment: 'seen' } as const
  const { challenge, nonce } = await rig.service.challenge(ann, [{ id, ...given, ...changes.signed }])
  const { by = own, flags, origin: page = origin } = changes
  const passkey = {
    nonce: changes.nonce ?? nonce,
    credentialId: own.id,
    ...by.respond(challenge, page, flags),
  }
  return rig.service.vote(id, ann, { ...given, passkey })
}

describe('a vote that needs a passkey', () => {
  const own = testPasskey()

  it('counts with the signature of the reviewer, which its record has', async () => {
    await using rig = await start(own)
    const id = idOf(await rig.call())
    const challenge = await rig.service.challenge(ann, [{ id, vote: 'approve' }])
    expect(challenge).to.deep.include({ rpId: 'localhost', credentials: [own.id] })
    const found = await vote(rig, own, id)
    expect(found).to.include({ status: 'approved', requiresPasskey: true })
    expect(found.votes[0]).to.include({ proof: 'passkey' })
    const { facts } = rig.events.find(({ name }) => name === 'escalations/vote') ?? {}
    expect(facts).to.include({ vote: 'approve', proof: 'passkey', reviewer: 'ann@acme.example of acme' })
    expect(facts?.['passkey']).to.include({ origin, public_key: own.publicKey })
  })

  for (const [what, changes] of [
    ['for another vote', { signed: { vote: 'reject' } }],
    ['for another comment', { signed: { comment: 'not seen' } }],
    ['for another nonce', { nonce: 'ff' }],
    ['of another origin', { origin: 'http://evil.example:9090' }],
    ['of another port', { origin: 'http://localhost:9091' }],
    ['without verifying the user', { flags: 0x01 }],
    ['without the user', { flags: 0x04 }],
    ['of another key', { by: testPasskey(own.id) }],
  ] as const) {
    it(`is refused if it is signed ${what}`, async () => {
      await using rig = await start(own)
      const id = idOf(await rig.call())
      expect(await rejectionOf(vote(rig, own, id, changes))).to.have.property('code', 'PASSKEY_REQUIRED')
      expect(await rig.service.find(id)).to.deep.include({ status: 'pending', votes: [] })
    })
  }

  it('is refused without a signature, of one call for another, and with the passkey of another reviewer', async () => {
    await using rig = await start(own)
    const id = idOf(await rig.call())
    const other = idOf(await rig.call({ args: { n: 2 } }))
    const { challenge, nonce } = await rig.service.challenge(ann, [{ id: other, vote: 'approve' }])
    const passkey = { nonce, credentialId: own.id, ...own.respond(challenge, origin) }
    for (const given of [
      rig.service.vote(id, ann, { vote: 'approve' }),
      rig.service.vote(id, ann, { vote: 'reject' }),
      rig.service.vote(id, ann, { vote: 'approve', passkey }),
      rig.service.vote(other, bob, { vote: 'approve', passkey }),
    ]) {
      expect(await rejectionOf(given)).to.have.property('code', 'PASSKEY_REQUIRED')
    }
  })

  it('is one of several that a single signature proves, and of no others', async () => {
    await using rig = await start(own)
    const ids = [1, 2, 3].map(async (n) => idOf(await rig.call({ args: { n } })))
    const [first = '', second = '', third = ''] = await Promise.all(ids)
    const votes = [first, second].map((id) => ({ id, vote: 'approve' as const, comment: 'all seen' }))
    const { challenge, nonce, batch = [] } = await rig.service.challenge(ann, votes)
    expect(batch).to.have.length(2)
    const signed = { nonce, credentialId: own.id, ...own.respond(challenge, origin) }
    const [one = '', other = ''] = batch
    for (const [id, changed] of [
      [third, { batch }],
      [first, {}],
      [first, { batch: [one] }],
      [first, { batch: [other] }],
      [first, { batch: [other, one] }],
      [first, { batch: [...batch, one] }],
      [first, { batch, comment: 'not seen' }],
      [first, { batch, vote: 'reject' as const }],
    ] as const) {
      const {
        comment = 'all seen',
        vote: choice = 'approve',
        ...passkey
      } = { ...changed } as {
        comment?: string
        vote?: 'reject'
        batch?: string[]
      }
      const given = rig.service.vote(id, ann, { vote: choice, comment, passkey: { ...signed, ...passkey } })
      expect(await rejectionOf(given), JSON.stringify(changed)).to.have.property('code', 'PASSKEY_REQUIRED')
    }
    for (const { id, ...given } of votes) {
      const voted = await rig.service.vote(id, ann, { ...given, passkey: { ...signed, batch } })
      expect(voted).to.include({ status: 'approved' })
    }
    expect(
      rig.events.filter(({ name }) => name === 'escalations/vote').map(({ facts }) => facts?.['passkey']),
    )
      .to.have.length(2)
      .and.satisfy((all: { batch?: unknown }[]) => all.every((passkey) => Array.isArray(passkey.batch)))
  })

  it('is not prepared for somebody who may not cast it', async () => {
    await using rig = await start(own)
    const id = idOf(await rig.call())
    const outsider = rig.service.challenge(reviewer('ann', [], 'globex'), [{ id, vote: 'approve' }])
    expect(await rejectionOf(outsider)).to.have.property('code', 'NOT_A_REVIEWER')
    const without = rig.service.challenge(reviewer('cid'), [{ id, vote: 'approve' }])
    expect(await rejectionOf(without)).to.have.property('code', 'PASSKEY_REQUIRED')
  })
})

describe('a policy that requires passkeys', () => {
  it('needs one of somebody who votes', () => {
    const said = (passkeys: object[], knowsUsers: boolean) =>
      checkSection(
        enforcementPlugin,
        { escalate_on: ['egress_violation'] },
        {
          escalationRule: { ...plainRule, requiresPasskey: true },
          host: { reviewers: { roles: ['r'], approvalSets: {}, passkeys } } as never,
          knowsUsers,
        },
      ).filter((line) => line.includes('.require:'))
    expect(said([{ user: 'ann' }], true)).to.deep.equal([])
    expect(said([{}], false)).to.deep.equal([])
    expect(said([{}], true)[0]).to.match(/admin\.passkeys lists no passkey of a user$/)
    expect(said([{ user: 'ann' }], false)[0]).to.match(/of the holder of the admin token/)
  })
})
