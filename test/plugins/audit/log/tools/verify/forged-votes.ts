// Records of votes with a passkey, as their gateway wrote them and as the holder of the log's key signs them again.

import { createPublicKey, type JsonWebKey } from 'node:crypto'
import { batchChallengeOf, challengeOf, nonceOf, type SignedVote } from '@svc/core/passkey'
import {
  type KeyKind,
  type OddResponse,
  type TestPasskey,
  testPasskey,
} from '../../../../../support/authenticator.js'
import { DAY } from '../evidence/evidence-rig.js'
import { forgedRecord } from '../evidence/forged-lines.js'

type Json = Record<string, unknown>

export interface ForgedVote {
  readonly title: string
  readonly record: Json
  /** Whether every verifier accepts it. */
  readonly isGood: boolean
}

const ORIGIN = 'http://localhost:9090'
const KINDS = ['ec', 'ed25519', 'rsa'] as const
const passkeys = Object.fromEntries(KINDS.map((kind) => [kind, testPasskey('id', kind)])) as Record<
  KeyKind,
  TestPasskey
>

interface Cast {
  readonly by?: TestPasskey
  readonly origin?: string
  readonly flags?: number
  readonly odd?: OddResponse
  /** What is signed in place of what the record says. */
  readonly signed?: Partial<SignedVote>
  /** Other members of the proof. */
  readonly passkey?: Json
  readonly reviewer?: string
  readonly user?: string
  /** Seconds between the challenge and the record. */
  readonly age?: number
  readonly roles?: readonly string[]
  /** What the record says of the roles. */
  readonly saidRoles?: unknown
  readonly escalation?: string
  readonly input?: string
  /** The list that is signed, by the challenge of the vote. */
  readonly batch?: (own: string) => readonly string[]
}

const AT = Date.parse(`${DAY}T10:00:00.000Z`)
const ROLES = ['approver', 'beta', '\u{1f600}x', '\ufb33']

/** The record of an approval, of ann's unless the cast says otherwise. */
export function voteRecord(cast: Cast = {}): Json {
  const { by = passkeys.ec, origin = ORIGIN, flags, odd, signed, passkey } = cast
  const { reviewer = 'ann of acme', user = 'ann', age = 30, batch } = cast
  const roles = user === '' ? [] : (cast.roles ?? ROLES)
  const saidRoles = 'saidRoles' in cast ? cast.saidRoles : roles
  const vote: SignedVote = {
    escalation: cast.escalation ?? 'esc_1',
    fingerprint: 'f1',
    input_sha256: cast.input ?? 'a1',
    vote: 'approve',
    comment: 'seen',
    reviewer,
    log_id: '0011223344556677',
    nonce: nonceOf(AT - age * 1000, roles),
  }
  const own = challengeOf({ ...vote, ...signed })
  const list = batch?.(own)
  const challenge = list === undefined ? own : batchChallengeOf(list)
  const response = by.respond(challenge, origin, flags, odd)
  const proof = {
    nonce: vote.nonce,
    public_key: by.publicKey,
    origin,
    authenticator_data: response.authenticatorData,
    client_data_json: response.clientDataJson,
    signature: response.signature,
    ...(list === undefined ? {} : { batch: list }),
    ...passkey,
  }
  const { fingerprint, comment } = vote
  return forgedRecord({
    tool: 'escalations/vote@1',
    server: 'edge@1.0.0',
    gateway: 'edge@1.0.0',
    escalation_id: vote.escalation,
    input_sha256: vote.input_sha256,
    findings: [{ reason: 'egress_violation', effect: 'escalate', detail: 'approve: seen' }],
    ...(user === '' ? {} : { principal: { user, roles: saidRoles } }),
    event: { vote: 'approve', comment, reviewer, proof: 'passkey', fingerprint, passkey: proof },
  })
}

export function* forgedVotes(): Generator<ForgedVote, void, void> {
  for (const kind of KINDS)
    yield { title: `a vote with ${kind}`, record: voteRecord({ by: passkeys[kind] }), isGood: true }
  for (const kind of KINDS) yield* alterations(kind)
  yield* omissions()
  yield* odd()
}

/** Each value below the members of the vote, changed, of another type, and removed. */
function* alterations(kind: KeyKind): Generator<ForgedVote, void, void> {
  const record = voteRecord({ by: passkeys[kind] })
  const { event, escalation_id, input_sha256, findings, principal, log_id, policy } = record
  const parts = { event, escalation_id, input_sha256, findings, principal, log_id, policy }
  for (const [path, changed] of changes(parts)) {
    // Neither the kind of the finding nor the retention is part of the vote; another log is another file.
    if (/\.(findings\.0\.(reason|effect)|policy\.retention|log_id)/.test(path)) continue
    // Without its event the record states no vote, and without a decision it is no record.
    if (/^\.(event|policy) |^\.policy\.decision /.test(path)) continue
    const rest = Object.fromEntries(Object.entries(record).filter(([name]) => !(name in parts)))
    yield { title: `${kind}: ${path}`, record: { ...rest, ...(changed as Json) }, isGood: false }
  }
}

function* changes(value: unknown, path = ''): Generator<[path: string, changed: unknown]> {
  if (typeof value === 'string') {
    yield [
      `${path} changed`,
      value === 'approve' ? 'reject' : value.slice(0, -1) + (value.endsWith('A') ? 'B' : 'A'),
    ]
    yield [`${path} longer`, `${value}A`]
    yield [`${path} with a space`, `${value} `]
    yield [`${path} empty`, '']
  }
  if (path !== '')
    for (const other of [null, 5, true, ['x'], {}]) yield [`${path} as ${JSON.stringify(other)}`, other]
  if (typeof value !== 'object' || value === null) return
  for (const [name, inner] of Object.entries(value)) {
    for (const [at, changed] of changes(inner, `${path}.${name}`))
      yield [at, Array.isArray(value) ? value.with(Number(name), changed) : { ...value, [name]: changed }]
    const { [name]: _, ...rest } = value as Json
    yield [`${path}.${name} removed`, Array.isArray(value) ? [] : rest]
  }
}

/** A proof that is left out shows only to a reader who knows who has to sign. */
function* omissions(): Generator<ForgedVote, void, void> {
  const { event, ...record } = voteRecord()
  const { passkey: _, proof: __, ...rest } = event as Json
  const left: [string, Json][] = [
    ['without its proof', { ...record, event: rest }],
    ['with a proof of another kind', { ...record, event: { ...rest, proof: 'user_token' } }],
    ['as one that came late', { ...record, event: { ...rest, proof: 'late' }, error: 'ALREADY_DECIDED' }],
    ['without its event', record],
    ['with an event that is a text', { ...record, event: 'approve' }],
    ['as one that came late, without an error', { ...record, event: { ...rest, proof: 'late' } }],
    ['with an error', { ...record, event, error: 'ALREADY_DECIDED' }],
    ['as another event', { ...record, event: event, tool: 'escalations/remind@1' }],
  ]
  for (const [title, made] of left)
    yield { title: `a vote ${title}`, record: made, isGood: !/without an error|with an error/.test(title) }
}

const bytes = (change: (text: string) => string) => (text: string) => Buffer.from(change(text))
const twice = (member: string) => ({ clientBytes: bytes((text) => text.replace('{', `{${member},`)) })

/** What a program that holds the passkey can make of a response, and other texts for the same bytes. */
function* odd(): Generator<ForgedVote, void, void> {
  const { publicKey } = passkeys.ec
  const jwk = createPublicKey({ key: Buffer.from(publicKey, 'base64'), format: 'der', type: 'spki' }).export({
    format: 'jwk',
  })
  const bad: Record<string, Cast> = {
    'for a registration': { odd: { client: { type: 'webauthn.create' } } },
    'of a frame': { odd: { client: { crossOrigin: true } } },
    'of a frame in another page': {
      odd: { client: { crossOrigin: true, topOrigin: 'https://evil.example' } },
    },
    'of a page in another': { odd: { client: { topOrigin: 'https://evil.example' } } },
    'with another challenge': { odd: { client: { challenge: 'AAAA' } } },
    'with a challenge as a list': { odd: { client: { challenge: ['x'] } } },
    'with another origin': { odd: { client: { origin: 'http://localhost:9091' } } },
    'with a token binding of an unknown state': { odd: { client: { tokenBinding: { status: 'x' } } } },
    'with a token binding that is a text': { odd: { client: { tokenBinding: 'present' } } },
    'with client data that is a list': { odd: { clientBytes: bytes((text) => `[${text}]`) } },
    'with client data that is null': { odd: { clientBytes: bytes(() => 'null') } },
    'with client data that is not JSON': { odd: { clientBytes: bytes((text) => `${text}}`) } },
    'with a byte order mark': { odd: { clientBytes: bytes((text) => `\ufeff${text}`) } },
    'with client data that is not UTF-8': {
      odd: { clientBytes: (text) => Buffer.from(text.replace('{', '{"\xff":1,'), 'latin1') },
    },
    'with NaN': { odd: { clientBytes: bytes((text) => text.replace('{', '{"n":NaN,')) } },
    'without the user': { flags: 0x04 },
    'without verifying the user': { flags: 0x01 },
    'with no flag': { flags: 0 },
    'of an authenticator that says too little': { odd: { data: (data) => data.subarray(0, 36) } },
    'of an authenticator that says too much': {
      odd: { data: (data) => Buffer.concat([data, Buffer.from([0])]) },
    },
    'with extensions': { flags: 0x85, odd: { data: (data) => Buffer.concat([data, Buffer.from([0xa0])]) } },
    'of another relying party': {
      odd: { data: (data) => Buffer.concat([Buffer.alloc(32), data.subarray(32)]) },
    },
    'with a path in its origin': { origin: 'http://localhost:9090/console' },
    'with a slash after its origin': { origin: 'http://localhost:9090/' },
    'with an origin in capital letters': { origin: 'HTTP://LOCALHOST:9090' },
    'with the usual port in its origin': { origin: 'http://localhost:80' },
    'with a port that is not one': {
      odd: { client: { origin: 'http://localhost:65536' } },
      passkey: { origin: 'http://localhost:65536' },
    },
    'with a user in its origin': { origin: 'http://ann@localhost:9090' },
    'of an IP address': { origin: 'http://127.0.0.1:9090' },
    'of an IP address of six': { origin: 'http://[::1]:9090' },
    'of an IP address as a number': { origin: 'http://2130706433' },
    'of an IP address in hexadecimal': { origin: 'http://0x7f.1' },
    'of another scheme': { origin: 'ws://localhost:9090' },
    'for another vote': { signed: { vote: 'reject' } },
    'for another comment': { signed: { comment: null } },
    'for another reviewer': { signed: { reviewer: 'bob of acme' } },
    'for another log': { signed: { log_id: null } },
    'for another nonce': { signed: { nonce: nonceOf(AT, ROLES) } },
    'by a challenge of an hour ago': { age: 3600 },
    'by a challenge of eleven minutes ago, and a little': { age: 660.001 },
    'by a challenge of later': { age: -61 },
    'with a nonce of another form': { signed: { nonce: 'n2' }, passkey: { nonce: 'n2' } },
    'of somebody with other roles': { saidRoles: [...ROLES, 'admin'] },
    'of somebody without roles': { saidRoles: [] },
    'of somebody whose roles are a text': { roles: [], saidRoles: '' },
    'of somebody whose roles are numbers': { roles: [], saidRoles: [1] },
    'among others that are not it': { batch: () => ['AAAA', 'BBBB'] },
    'among others, in another order': { batch: (own) => ['AAAA', own], passkey: { batch: ['BBBB'] } },
    'with a list that was not signed': { passkey: { batch: ['AAAA'] } },
    'with a list of numbers': { passkey: { batch: [1] } },
    'with a list that is null': { passkey: { batch: null } },
    'with a member more': { passkey: { counter: '1' } },
    'for another call': { signed: { fingerprint: 'f2' } },
    'for another input': { signed: { input_sha256: 'a2' } },
    'by another user': { user: 'bob' },
    'by the admin token for a user': { user: '' },
    'by a user for the admin token': { reviewer: 'the admin token' },
    'by a user whose name begins alike': { user: 'an' },
    'by a user whose name goes on': { user: 'ann of' },
    'with the key of another': { passkey: { public_key: testPasskey().publicKey } },
    'with the key of another kind': { passkey: { public_key: passkeys.ed25519.publicKey } },
    'with its key in base64url': { passkey: { public_key: `${publicKey.slice(0, -4)}_w==` } },
    'with bytes after its key': { passkey: { public_key: appended(publicKey) } },
    'with its key in compressed form, which no browser gives': { passkey: { public_key: compressed(jwk) } },
    'with padding': { passkey: paddedOf(voteRecord()) },
  }
  for (const kind of ['secp256k1', 'secp384r1', 'rsa-pss'] as const)
    bad[`with a key of ${kind}`] = { by: testPasskey('id', kind) }
  for (const [title, cast] of Object.entries(bad))
    yield { title: `a vote ${title}`, record: voteRecord(cast), isGood: false }
  for (const [title, change] of Object.entries(signatures)) {
    const record = voteRecord()
    const event = record['event'] as { passkey: { signature: string } }
    const signature = change(Buffer.from(event.passkey.signature, 'base64url')).toString('base64url')
    const passkey = { ...event.passkey, signature }
    yield {
      title: `a signature ${title}`,
      record: { ...record, event: { ...event, passkey } },
      isGood: false,
    }
  }
  const good: Record<string, Cast> = {
    'with a passkey that is synchronised': { flags: 0x1d },
    'with members that browsers add': { odd: { client: { other_keys_can_be_added_here: 'x', n: 1e3 } } },
    'with white space in its client data': {
      odd: { clientBytes: bytes((text) => ` ${text.replace(',', ', ')}\n`) },
    },
    'with a member twice in its client data, the last as it should be': { odd: twice('"challenge":"AAAA"') },
    'with a token binding of old browsers': { odd: { client: { tokenBinding: { status: 'supported' } } } },
    'with nothing in its token binding': { odd: { client: { tokenBinding: null, topOrigin: '' } } },
    'over https': { origin: 'https://gateway.example' },
    'of a name that ends in a letter': { origin: 'https://10.0.0.a:8443' },
    'among others': { batch: (own) => ['AAAA', own, 'AAAA'] },
    'among no other': { batch: (own) => [own] },
    'by a challenge of eleven minutes ago': { age: 660 },
    'by a challenge of a clock that is ahead': { age: -60 },
    'of somebody without roles': { roles: [] },
    'of somebody whose roles are not named': { roles: [], saidRoles: null },
    'of somebody with a role twice': { saidRoles: [...ROLES, ...ROLES].reverse() },
    'of the admin token': { user: '', reviewer: 'the admin token' },
    'by a user of many words': { user: 'ann of beta', reviewer: 'ann of beta of acme' },
  }
  for (const [title, cast] of Object.entries(good)) {
    const record = voteRecord(cast)
    const detail = cast.user === '' ? 'approve by the admin token: seen' : 'approve: seen'
    yield { title: `a vote ${title}`, record: { ...record, findings: [{ detail }] }, isGood: true }
  }
}

const signatures: Record<string, (der: Buffer) => Buffer> = {
  'of nothing': () => Buffer.alloc(0),
  'with a byte after it': (der) => Buffer.concat([der, Buffer.from([0])]),
  'with its length in two bytes': (der) => Buffer.concat([Buffer.from([0x30, 0x81]), der.subarray(1)]),
  'with a zero before a number': (der) => {
    const end = 4 + (der[3] ?? 0)
    const first = Buffer.concat([Buffer.from([0x02, (der[3] ?? 0) + 1, 0]), der.subarray(4, end)])
    return Buffer.concat([Buffer.from([0x30, (der[1] ?? 0) + 1]), first, der.subarray(end)])
  },
  'of zeros': () => Buffer.from('3006020100020100', 'hex'),
  'of ones': () => Buffer.from('3006020101020101', 'hex'),
  'as two numbers of 32 bytes': (der) => Buffer.concat([der.subarray(4, 36), der.subarray(-32)]),
}

function appended(key: string): string {
  return Buffer.concat([Buffer.from(key, 'base64'), Buffer.from([0])]).toString('base64')
}

function compressed({ x = '', y = '' }: JsonWebKey): string {
  const isOdd = (Buffer.from(y, 'base64url').at(-1) ?? 0) % 2
  const head = Buffer.from('3039301306072a8648ce3d020106082a8648ce3d030107032200', 'hex')
  return Buffer.concat([head, Buffer.from([2 + isOdd]), Buffer.from(x, 'base64url')]).toString('base64')
}

function paddedOf(record: Json): Json {
  const { passkey } = record['event'] as { passkey: Json }
  const data = String(passkey['authenticator_data'])
  return { ...passkey, authenticator_data: `${data}=` }
}
