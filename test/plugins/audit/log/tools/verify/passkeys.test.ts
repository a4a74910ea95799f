// A log whose holder of the key leaves out the proofs of votes or puts in others, for a reader who knows the passkeys.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { canonicalize, sha256Hex } from '@svc/core/json'
import { type ReviewerPasskey, verifyLog } from '@svc/plugin-audit/tools'
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
  open: step('open', 'esc_1', 'opened'),
  ann: voteRecord({ by: anns }),
  bob: voteRecord(BOB),
  decide: step('decide', 'esc_1', 'approved: 2 to approve, 0 to reject'),
}
type Name = keyof typeof story

function withoutProof(record: Json, changes: Json = {}, more: Json = {}): Json {
  const { passkey: _, ...event } = record['event'] as Json
  return { ...record, event: { ...event, proof: 'user_token', ...changes }, ...more }
}

interface Row {
  readonly title: string
  /** Records in place of those of the story; null leaves one out. */
  readonly forged?: Partial<Record<Name, Json | readonly Json[] | null>>
  readonly passkeys?: readonly ReviewerPasskey[]
  /** The records that are red. */
  readonly found?: readonly Name[]
}

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
  {
    title: 'nothing, and the reader lists both passkeys',
    forged: { register: null, confirm: null, confirmed: null },
    passkeys: [...listed, { user: 'bob', public_key: bobs.publicKey }],
  },
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
]

interface Built {
  readonly folder: string
  /** Names of the records by their lines. */
  readonly names: readonly string[]
}

/** The log of the row, and its passkeys in a file. */
function build(home: string, { forged = {}, passkeys = listed }: Row): Built {
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
  writeFileSync(join(folder, 'passkeys.json'), JSON.stringify({ admin: { passkeys } }))
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

  for (const [at, { title, passkeys = listed, found = [] }] of rows.entries()) {
    it(`${found.length === 0 ? 'accepts a log in which' : 'is red if'} ${title}`, async () => {
      const { folder, names } = built[at]!
      expect((await verifyLog(folder)).verdict).to.equal('intact')
      const report = await verifyLog(folder, { passkeys })
      const red = report.failures.map(({ line, kind }) => [names[line - 1], kind])
      expect(red).to.deep.equal(found.map((name) => [name, 'bad_vote']))
      expect(report.verdict).to.equal(found.length === 0 ? 'intact' : 'not_intact')
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
    for (const [at, { failures }] of verifyInPython(jobs).entries()) {
      const { title, found = [] } = rows[at]!
      const red = failures.map(({ line, kind }) => [built[at]!.names[line - 1], kind])
      expect(red, title).to.deep.equal(found.map((name) => [name, 'bad_vote']))
    }
  })

  it('is not done without the records', async () => {
    const { folder } = built[0]!
    const error = await verifyLog(folder, { passkeys: listed, fast: true }).then(null, (reason) => reason)
    expect(error).to.include({ code: 'bad_config' })
  })
})
