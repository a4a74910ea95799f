// A log whose holder of the key leaves out the proofs of votes or puts in others, for a reader who knows the passkeys.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { canonicalize, sha256Hex } from '@svc/core/json'
import { type ReviewerPasskey, type VoterRules, verifyLog } from '@svc/plugin-audit/tools'
import { expect } from 'chai'
import { LogBuilder } from '../../../../../support/audit-log.js'
import { testPasskey } from '../../../../../support/authenticator.js'
import { DAY } from '../evidence/evidence-rig.js'
import { signatureOf } from '../evidence/forged-lines.js'
import { voteRecord } from './forged-votes.js'
import { verifyInPython } from './matrix/python.js'

type Json = Record<string, unknown>

const [anns, bobs, strangers] = [testPasskey('a'), testPasskey('b'), testPasskey('c')]
const BOB = { user: 'bob', reviewer: 'bob of acme', by: bobs }
const listed: readonly ReviewerPasskey[] = [{ user: 'ann', public_key: anns.publicKey }]

const enrolmentOf = (publicKey = bobs.publicKey) => ({
  credential_id: 'x',
  public_key: publicKey,
  reviewer: 'bob of acme',
})
const hashOf = (publicKey?: string) => sha256Hex(canonicalize(enrolmentOf(publicKey)))

function step(tool: string, escalation: string, detail: string, more: Json = {}): Json {
  const { findings: _, event: __, principal: ___, ...rest } = voteRecord({ escalation })
  const decision = /approved|confirmed/.test(detail) ? 'allow' : 'deny'
  const policy = { decision, retention: 'standard' }
  return { ...rest, tool: `escalations/${tool}@1`, policy, findings: [{ detail }], ...more }
}

/** Bob's passkey is confirmed by ann, then both approve a call. */
const story = {
  register: step('open', 'esc_k', 'opened', { event: { enrolment: enrolmentOf() } }),
  confirm: voteRecord({ by: anns, escalation: 'esc_k', input: hashOf() }),
  confirmed: step('decide', 'esc_k', 'approved: 1 to approve, 0 to reject'),
  open: ofSet(null),
  ann: voteRecord({ by: anns }),
  bob: voteRecord(BOB),
  decide: step('decide', 'esc_1', 'approved: 2 to approve, 0 to reject'),
}
type Name = keyof typeof story

function withoutProof(record: Json, changes: Json = {}, more: Json = {}): Json {
  const { passkey: _, ...event } = record['event'] as Json
  return { ...record, event: { ...event, proof: 'user_token', ...changes }, ...more }
}

function ofSet(setId: string | null, tool = 'open'): Json {
  return step(tool, 'esc_1', tool, { event: { approval_set_id: setId } })
}

interface Row {
  readonly title: string
  /** Records in place of those of the story; null leaves one out. */
  readonly forged?: Partial<Record<Name, Json | readonly Json[] | null>>
  readonly passkeys?: readonly ReviewerPasskey[]
  readonly voters?: VoterRules
  /** The records that are red. */
  readonly found?: readonly Name[]
  /** Votes of which the log does not state who may cast them. */
  readonly unjudged?: number
}

/** Ann has the role of a reviewer, bob is in a set. */
const annByRole: VoterRules = { reviewerRoles: ['approver'], approvalSets: { board: { users: ['bob'] } } }
const bobsWithoutRole = voteRecord({ ...BOB, roles: ['clerk'] })
const bothListed = [...listed, { user: 'bob', public_key: bobs.publicKey }]
const noEnrolment = { register: null, confirm: null, confirmed: null }
const withoutOpening = { ...noEnrolment, open: null }
const withoutMember = step('open', 'esc_1', 'opened')

const rows: readonly Row[] = [
  { title: 'nothing' },
  { title: 'a vote loses its proof', forged: { ann: withoutProof(story.ann) }, found: ['ann', 'decide'] },
  {
    title: 'a vote loses its proof, and comes late',
    forged: { ann: withoutProof(story.ann, { proof: 'late' }, { error: 'ALREADY_DECIDED' }) },
    found: ['decide'],
  },
  {
    title: 'a vote loses its event',
    forged: { ann: { ...story.ann, event: undefined } },
    found: ['ann', 'decide'],
  },
  {
    title: 'a vote gets the proof of a stranger',
    forged: { ann: voteRecord({ by: strangers }) },
    found: ['ann', 'decide'],
  },
  {
    title: 'a vote gets the proof of another reviewer',
    forged: { ann: voteRecord({ by: bobs }) },
    found: ['ann', 'decide'],
  },
  { title: 'a vote is left out', forged: { ann: null }, found: ['decide'] },
  { title: 'a vote stands for two', forged: { bob: null, ann: [story.ann, story.ann] }, found: ['decide'] },
  {
    title: 'a vote is added of somebody whom nobody knows',
    forged: { bob: [story.bob, withoutProof(voteRecord({ user: 'eve', reviewer: 'eve of acme' }))] },
    found: ['bob'],
  },
  {
    title: 'a vote is added of somebody whose name begins alike',
    forged: { bob: [story.bob, voteRecord({ user: 'anna', reviewer: 'anna of acme', by: anns })] },
    found: ['bob'],
  },
  {
    title: 'the beginning of an escalation is left out, with a vote',
    forged: { open: null, ann: null },
    found: ['decide'],
  },
  {
    title: 'a passkey is registered that nobody confirmed',
    forged: { confirm: null },
    found: ['confirmed', 'bob', 'decide'],
  },
  {
    title: 'a passkey is registered without a decision',
    forged: { confirmed: null },
    found: ['bob', 'decide'],
  },
  {
    title: 'a passkey is confirmed by its owner',
    forged: { confirm: voteRecord({ ...BOB, escalation: 'esc_k', input: hashOf() }) },
    found: ['confirm', 'confirmed', 'bob', 'decide'],
  },
  {
    title: 'another passkey is registered than the one that was confirmed',
    forged: {
      register: step('open', 'esc_k', 'opened', { event: { enrolment: enrolmentOf(strangers.publicKey) } }),
      bob: voteRecord({ ...BOB, by: strangers }),
    },
    found: ['confirmed', 'bob', 'decide'],
  },
  {
    title: 'a passkey is used after it was revoked',
    forged: { open: [step('revoke', 'esc_k', 'the passkey is revoked'), story.open] },
    found: ['bob', 'decide'],
  },
  { title: 'nothing, and the reader lists both passkeys', forged: noEnrolment, passkeys: bothListed },
  {
    title: 'a vote loses its proof, of somebody who needs none',
    forged: { bob: withoutProof(story.bob) },
    passkeys: [...listed, { user: 'bob' }],
  },
  {
    title: 'a vote is by a subject that the reader lists',
    forged: { ann: { ...story.ann, principal: { ...(story.ann['principal'] as Json), user_id: 'u-1' } } },
    passkeys: [{ user: 'u-1', public_key: anns.publicKey }],
    found: ['confirm', 'confirmed', 'bob', 'decide'],
  },
  {
    title: 'the votes are of members of the approval set, by name and by role',
    forged: { open: ofSet('finance') },
    voters: { approvalSets: { finance: { users: ['ann'], reviewer_roles: ['beta'] } } },
  },
  {
    title: 'a vote is of somebody who is not in the approval set',
    forged: { open: ofSet('finance') },
    voters: { approvalSets: { finance: { users: ['ann'] }, other: { users: ['bob'] } } },
    found: ['bob', 'decide'],
  },
  {
    title: 'a name begins like that of a member, and a role is of another set',
    forged: { open: ofSet('finance') },
    voters: { approvalSets: { finance: { users: ['bo'], reviewer_roles: ['treasurer'] } } },
    found: ['ann', 'bob', 'decide'],
  },
  {
    title: 'a second set is asked',
    forged: { open: [ofSet('finance'), ofSet('board', 'second-set')] },
    voters: { approvalSets: { finance: { users: ['ann'] }, board: { users: ['bob'] } } },
  },
  {
    title: 'the approval set is one that the policy does not have',
    forged: { open: ofSet('invented') },
    voters: { approvalSets: { finance: { users: ['ann', 'bob'] } } },
    found: ['ann', 'bob', 'decide'],
  },
  {
    title: 'a second set is asked, and reviewers by role vote as before',
    forged: { open: [ofSet(null), ofSet('board', 'second-set')], bob: bobsWithoutRole },
    voters: annByRole,
  },
  {
    title: 'a second set is asked, and a vote is of somebody in no set and without a role',
    forged: { open: [ofSet(null), ofSet('board', 'second-set')], bob: bobsWithoutRole },
    voters: { ...annByRole, approvalSets: { board: { users: ['cid'] } } },
    found: ['bob', 'decide'],
  },
  {
    title: 'a second set is asked, and a vote has the role but the first set is named',
    forged: { open: [ofSet('finance'), ofSet('board', 'second-set')] },
    voters: { ...annByRole, approvalSets: { finance: { users: ['cid'] }, board: { users: ['bob'] } } },
    found: ['ann', 'decide'],
  },
  {
    title: 'the opening names no set though the policy has one',
    forged: noEnrolment,
    passkeys: bothListed,
    voters: { approvalSets: { finance: { users: ['ann', 'bob'] } }, defaultSet: 'finance' },
    found: ['ann', 'bob', 'decide'],
  },
  {
    title: 'a second set alone is named though the policy has a first one',
    forged: { ...noEnrolment, open: [ofSet(null), ofSet('board', 'second-set')] },
    passkeys: bothListed,
    voters: { approvalSets: { board: { users: ['ann', 'bob'] } }, defaultSet: 'board' },
    found: ['ann', 'bob', 'decide'],
  },
  {
    title: 'the opening leaves out whether it names a set, which is counted',
    forged: { ...noEnrolment, open: withoutMember },
    passkeys: bothListed,
    voters: { approvalSets: { finance: { users: ['cid'] } }, defaultSet: 'finance' },
    unjudged: 2,
  },
  {
    title: 'a second opening leaves out the set that the first one names',
    forged: { open: [ofSet('finance'), withoutMember] },
    voters: { approvalSets: { finance: { users: ['ann'] } } },
    found: ['bob', 'decide'],
  },
  {
    title: 'the opening is in another log, which is counted',
    forged: withoutOpening,
    passkeys: bothListed,
    voters: { reviewerRoles: ['other'], defaultSet: 'finance' },
    unjudged: 2,
  },
  { title: 'an opening is in another log, without rules', forged: withoutOpening, passkeys: bothListed },
  {
    title: 'a passkey is confirmed by somebody who is not in its approval set',
    forged: {
      register: step('open', 'esc_k', 'opened', {
        event: { enrolment: { ...enrolmentOf(), approval_set_id: 'finance' }, approval_set_id: 'other' },
      }),
      confirm: voteRecord({
        by: anns,
        escalation: 'esc_k',
        input: sha256Hex(canonicalize({ ...enrolmentOf(), approval_set_id: 'finance' })),
      }),
    },
    voters: { approvalSets: { finance: { users: ['bob'] }, other: { users: ['ann'] } } },
    found: ['confirm', 'confirmed', 'bob', 'decide'],
  },
  { title: 'reviewers have a role of the policy', voters: { reviewerRoles: ['approver'] } },
  {
    title: 'a vote is of somebody without a role of reviewers',
    forged: { bob: voteRecord({ ...BOB, roles: ['clerk'] }) },
    voters: { reviewerRoles: ['approver'] },
    found: ['bob', 'decide'],
  },
  {
    title: 'a vote without a proof is of somebody who needs none, and is not in the approval set',
    forged: { open: ofSet('finance'), bob: withoutProof(story.bob) },
    passkeys: [...listed, { user: 'bob' }],
    voters: { approvalSets: { finance: { users: ['ann'] } } },
    found: ['bob'],
  },
]

interface Built {
  readonly folder: string
  /** Names of the records by their lines. */
  readonly names: readonly string[]
}

/** The part of a policy that the verifiers read. */
function policyOf(
  passkeys: readonly ReviewerPasskey[],
  { approvalSets, reviewerRoles, defaultSet }: VoterRules,
): object {
  const roles = reviewerRoles === undefined ? {} : { roles: { reviewer: reviewerRoles } }
  const security = { side_effects: { human_escalation: { approval_set_id: defaultSet } } }
  return { admin: { passkeys, approval_sets: approvalSets, ...roles }, security }
}

/** The log of the row, and its passkeys in a file. */
function build(home: string, { forged = {}, passkeys = listed, voters = {} }: Row): Built {
  const records = Object.entries(story).flatMap(([name, record]) => {
    const given = forged[name as Name]
    if (given === null) return []
    return [given ?? record].flat().map((one) => [name, one] as const)
  })
  const folder = mkdtempSync(join(home, 'log-'))
  const log = new LogBuilder(folder)
  for (const [at, [, record]] of records.entries()) {
    const numbered = { ...record, seq: `aaaaaaaaaaaaaaaa:${at}` }
    log.append(DAY, canonicalize({ ...numbered, sig: signatureOf(canonicalize(numbered)) }))
  }
  log.seal()
  log.finish()
  writeFileSync(join(folder, 'passkeys.json'), JSON.stringify(policyOf(passkeys, voters)))
  return { folder, names: records.map(([name]) => name) }
}

describe('audit verify with the passkeys of reviewers', () => {
  let home = ''
  let built: readonly Built[] = []

  before(() => {
    home = mkdtempSync(join(tmpdir(), 'svc-passkeys-'))
    built = rows.map((row) => build(home, row))
  })

  after(() => rmSync(home, { recursive: true }))

  for (const [at, { title, passkeys = listed, voters = {}, found = [], unjudged = 0 }] of rows.entries()) {
    it(`${found.length === 0 ? 'accepts a log in which' : 'is red if'} ${title}`, async () => {
      const { folder, names } = built[at]!
      expect((await verifyLog(folder)).verdict).to.equal('intact')
      const report = await verifyLog(folder, { passkeys, voters })
      const red = report.failures.map(({ line, kind }) => [names[line - 1], kind])
      expect(red).to.deep.equal(found.map((name) => [name, 'bad_vote']))
      expect(report.verdict).to.equal(found.length === 0 ? 'intact' : 'not_intact')
      expect(report.unjudgedVotes).to.equal(unjudged)
    })
  }

  it('finds the same in Python', () => {
    const jobs = built.map(({ folder }) => ({
      folder,
      keys: join(folder, 'public-keys'),
      against: undefined,
      origin: undefined,
      allow_unsealed: false,
      passkeys: join(folder, 'passkeys.json'),
    }))
    for (const [at, { failures, unjudged_votes }] of verifyInPython(jobs).entries()) {
      const { title, found = [], unjudged = 0 } = rows[at]!
      const red = failures.map(({ line, kind }) => [built[at]!.names[line - 1], kind])
      expect(red, title).to.deep.equal(found.map((name) => [name, 'bad_vote']))
      expect(unjudged_votes, title).to.equal(unjudged)
    }
  })

  it('is not done without the records', async () => {
    const { folder } = built[0]!
    const error = await verifyLog(folder, { passkeys: listed, fast: true }).then(null, (reason) => reason)
    expect(error).to.include({ code: 'bad_config' })
  })
})
