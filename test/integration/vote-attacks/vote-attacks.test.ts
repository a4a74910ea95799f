// Votes under `require: passkey`, through the ports of a gateway: everybody who might try, with every change of what a passkey signs,
// one by one and several at once. Nothing of it counts, save the votes of reviewers whose passkeys signed them.
import { createHash } from 'node:crypto'
import { batchChallengeOf, challengeOf, nonceOf, type SignedVote } from '@svc/core/passkey'
import { expect } from 'chai'
import fc from 'fast-check'
import { adminToken, ask, type HttpResponse } from '../../app/admin/rig.js'
import { type OddResponse, type TestPasskey, testPasskey } from '../../support/authenticator.js'
import { startTestGateway } from '../../support/gateway.js'
import { TestIssuer } from '../../support/issuer.js'
import { propertyRuns } from '../../support/property-runs.js'
import { startUpstream } from '../../support/upstream.js'

type Json = Record<string, unknown>

interface Person {
  readonly user: string
  readonly subject: string
  readonly roles: readonly string[]
  readonly tenant?: string
}

/** Each has a passkey of their own, which the policy lists. */
const people = {
  ann: { user: 'ann@acme.example', subject: 'u-ann', roles: ['approver'] },
  bo: { user: 'bo@acme.example', subject: 'u-bo', roles: ['approver'] },
  'the caller': { user: 'cal@acme.example', subject: 'u-cal', roles: ['approver'] },
  'the caller in capitals': { user: 'CAL@acme.example', subject: 'u-cal-2', roles: ['approver'] },
  'the caller in wide letters': { user: 'ｃal@acme.example', subject: 'u-cal-3', roles: ['approver'] },
  'the caller by the subject': { user: 'other@acme.example', subject: 'u-cal', roles: ['approver'] },
  'a reviewer of another tenant': {
    user: 'gus@globex.example',
    subject: 'u-gus',
    roles: ['approver'],
    tenant: 'globex',
  },
  'one of the second set before its time': { user: 'meg@acme.example', subject: 'u-meg', roles: ['manager'] },
  'one who may run emergencies': { user: 'ona@acme.example', subject: 'u-ona', roles: ['oncall'] },
  'a viewer': { user: 'vic@acme.example', subject: 'u-vic', roles: ['viewer'] },
  'an auditor': { user: 'aud@acme.example', subject: 'u-aud', roles: ['auditor'] },
  'an operator': { user: 'ops@acme.example', subject: 'u-ops', roles: ['ops'] },
  'an agent with the admin token': { user: 'ann@acme.example', subject: '', roles: [] },
} satisfies Record<string, Person>

type Who = keyof typeof people

/** How a vote departs from what its reviewer would sign. */
interface Change {
  readonly signed?: Partial<SignedVote> | ((office: Office) => Partial<SignedVote>)
  readonly response?: OddResponse
  readonly flags?: number
  readonly origin?: (origin: string) => string
  readonly by?: Who | 'a key of the agent'
  readonly credential?: string | Who
  /** Of the passkey, as it is sent. */
  readonly sent?: (passkey: Json) => Json | undefined
}

const zeros = '0'.repeat(64)
const MINUTE = 60_000

const changes: Readonly<Record<string, Change>> = {
  nothing: {},
  'no passkey': { sent: () => undefined },
  'another escalation': { signed: ({ other }) => ({ escalation: other }) },
  'another fingerprint': { signed: { fingerprint: zeros } },
  'another input': { signed: { input_sha256: zeros } },
  'another vote': { signed: { vote: 'reject' } },
  'another comment': { signed: { comment: 'not seen' } },
  'no comment': { signed: { comment: null } },
  'another reviewer': { signed: { reviewer: 'li@acme.example of acme' } },
  'the log of another gateway': { signed: { log_id: '0'.repeat(16) } },
  'no log': { signed: { log_id: null } },
  'another nonce than is sent': {
    sent: (passkey) => ({ ...passkey, nonce: nonceOf(Date.now(), ['approver']) }),
  },
  'a nonce of its own making': { signed: { nonce: '1' } },
  'an old nonce': { signed: { nonce: nonceOf(Date.now() - 20 * MINUTE, ['approver']) } },
  'a nonce of the future': { signed: { nonce: nonceOf(Date.now() + 20 * MINUTE, ['approver']) } },
  'a nonce for other roles': { signed: { nonce: nonceOf(Date.now(), ['approver', 'treasurer']) } },
  'the type of a registration': { response: { client: { type: 'webauthn.create' } } },
  'another challenge': { response: { client: { challenge: 'AAAA' } } },
  'another host': { origin: () => 'http://evil.example:9090' },
  'another port': { origin: (origin) => origin.replace(/\d+$/, (port) => String(Number(port) + 1)) },
  'another scheme': { origin: (origin) => origin.replace('http:', 'https:') },
  'the origin of an address': { origin: (origin) => origin.replace('localhost', '127.0.0.1') },
  'a frame of another site': { response: { client: { crossOrigin: true } } },
  'a top page of another site': { response: { client: { topOrigin: 'http://evil.example' } } },
  'another relying party': {
    response: { data: (data) => Buffer.concat([sha256('evil.example'), data.subarray(32)]) },
  },
  'a user who is not there': { flags: 0x04 },
  'a user who was not verified': { flags: 0x01 },
  'no flags': { flags: 0 },
  'too short data': { response: { data: (data) => data.subarray(0, 36) } },
  'too long data': { response: { data: (data) => Buffer.concat([data, Buffer.from([0])]) } },
  'another counter than was signed': {
    sent: (passkey) => ({ ...passkey, authenticator_data: flipped(passkey['authenticator_data'], 36) }),
  },
  'another signature': { sent: (passkey) => ({ ...passkey, signature: flipped(passkey['signature'], 20) }) },
  'no signature': { sent: (passkey) => ({ ...passkey, signature: 'AA' }) },
  'a key of the agent': { by: 'a key of the agent' },
  'the key of bo': { by: 'bo' },
  'an unknown credential': { credential: 'dW5rbm93bi1jcmVkZW50aWFs' },
  'the credential of bo': { credential: 'bo' },
  'a batch of others': { sent: (passkey) => ({ ...passkey, batch: ['AAAA'] }) },
}

const sha256 = (text: string) => createHash('sha256').update(text).digest()

function flipped(base64url: unknown, at: number): string {
  const bytes = Buffer.from(String(base64url), 'base64url')
  bytes[at] = (bytes[at] ?? 0) ^ 1
  return bytes.toString('base64url')
}

interface Office extends AsyncDisposable {
  readonly origin: string
  readonly logId: string
  /** Two calls that wait, and a third. */
  readonly waiting: readonly [string, string]
  readonly other: string
  readonly agents: TestPasskey
  readonly keys: Readonly<Record<Who, TestPasskey>>
  token(who: Who): Promise<string>
  post(who: Who, path: string, body: object): Promise<HttpResponse>
  show(id: string): Promise<Json>
  records(): readonly { readonly tool: string }[]
  call(n: number): Promise<Response>
}

async function startOffice(): Promise<Office> {
  const issuer = await TestIssuer.start()
  const upstream = await startUpstream()
  const names = Object.keys(people) as Who[]
  const keys = Object.fromEntries(
    names.map((who) => [who, testPasskey(Buffer.from(`the passkey of ${who}`).toString('base64url'))]),
  ) as Record<Who, TestPasskey>
  const passkeys = names.flatMap((who) =>
    who === 'an agent with the admin token'
      ? []
      : [{ user: people[who].user, id: keys[who].id, public_key: keys[who].publicKey }],
  )
  const gateway = await startTestGateway({
    targets: { billing: upstream.url },
    admin: {
      port: 0,
      tokenRef: 'env:SVC_ADMIN',
      roles: { reviewer: ['approver'], viewer: ['viewer'], auditor: ['auditor'], operator: ['ops'] },
      approval_sets: { managers: { reviewer_roles: ['manager'] } },
      passkeys,
    },
    env: { SVC_ADMIN: adminToken },
    authn: { oidc: issuer.oidc },
    security: {
      egress_allowlist: [],
      side_effects: {
        approve_high_risk: true,
        human_escalation: {
          require: 'passkey',
          min_approvals: 2,
          second_set: { after_sec: 600, approval_set_id: 'managers' },
          emergency: { roles: ['oncall'] },
        },
      },
    },
    enforcement: { escalate_on: ['egress_violation'], escalations: { adapter: 'memory' } },
  })
  const { adminUrl = '' } = await gateway.handle.ready()
  const tokenOf = ({ user, subject, roles, tenant = 'acme' }: Person) =>
    issuer.sign({ email: user, sub: subject, org: tenant, roles })
  const tokens = new Map<Who, Promise<string>>()
  const token = (who: Who) => {
    const found =
      tokens.get(who) ??
      (who === 'an agent with the admin token' ? Promise.resolve(adminToken) : tokenOf(people[who]))
    tokens.set(who, found)
    return found
  }
  const call = async (n: number) =>
    gateway.invoke(
      '/mcp/billing/pay@1',
      { url: 'https://elsewhere.example/', n },
      { authorization: `Bearer ${await token('the caller')}` },
    )
  const opened = [1, 2, 3].map(async (n) => String(((await (await call(n)).json()) as Json)['escalation_id']))
  const [first = '', second = '', other = ''] = await Promise.all(opened)
  const headersOf = async (who: Who) => ({
    authorization: `Bearer ${await token(who)}`,
    'content-type': 'application/json',
  })
  return {
    origin: `http://localhost:${new URL(adminUrl).port}`,
    logId: String((gateway.records()[0] as unknown as Json)['log_id']),
    waiting: [first, second],
    other,
    agents: testPasskey(),
    keys,
    token,
    post: async (who, path, body) =>
      ask(adminUrl, path, { method: 'POST', headers: await headersOf(who), body: JSON.stringify(body) }),
    show: async (id) =>
      (await ask(adminUrl, `/api/escalations/${id}`, { headers: await headersOf('ann') })).json,
    records: () => gateway.records(),
    call,
    async [Symbol.asyncDispose]() {
      await gateway[Symbol.asyncDispose]()
      await upstream[Symbol.asyncDispose]()
      await issuer[Symbol.asyncDispose]()
    },
  }
}

const given = { vote: 'approve', comment: 'seen' } as const

/** Signs by itself, as whoever is refused a challenge can compute it. */
async function attempt(
  office: Office,
  who: Who,
  { signed = {}, response, flags, origin, by = who, credential = who, sent = (passkey) => passkey }: Change,
  ids: readonly string[],
): Promise<HttpResponse> {
  const { user, roles, ...person } = people[who] as Person
  const nonce = nonceOf(Date.now(), roles)
  const changed = typeof signed === 'function' ? signed(office) : signed
  const challenges = await Promise.all(
    ids.map(async (id) => {
      const { fingerprint, input_sha256 } = await office.show(id)
      return challengeOf({
        ...given,
        escalation: id,
        fingerprint: String(fingerprint),
        input_sha256: String(input_sha256),
        reviewer: `${user} of ${person.tenant ?? 'acme'}`,
        log_id: office.logId,
        nonce,
        ...changed,
      })
    }),
  )
  const key = by === 'a key of the agent' ? office.agents : office.keys[by]
  const isBatch = ids.length > 1
  const challenge = isBatch ? batchChallengeOf(challenges) : (challenges[0] ?? '')
  const page = origin?.(office.origin) ?? office.origin
  const { authenticatorData, clientDataJson, signature } = key.respond(challenge, page, flags, response)
  const passkey = sent({
    nonce: changed.nonce ?? nonce,
    credential_id: credential in people ? office.keys[credential as Who].id : credential,
    authenticator_data: authenticatorData,
    client_data_json: clientDataJson,
    signature,
    ...(isBatch ? { batch: challenges } : {}),
  })
  const body = { ...given, ...(passkey === undefined ? {} : { passkey }) }
  if (!isBatch) return office.post(who, `/api/escalations/${ids[0]}/votes`, body)
  const escalations = await Promise.all(
    ids.map(async (id) => ({ id, input_sha256: String((await office.show(id))['input_sha256']) })),
  )
  return office.post(who, '/api/escalations/votes', { ...body, escalations })
}

function isAccepted({ status, json }: HttpResponse): boolean {
  const results = json['results'] as readonly { readonly refused?: object }[] | undefined
  return status === 200 && (results === undefined || results.some(({ refused }) => refused === undefined))
}

describe('a vote that needs a passkey, attacked', () => {
  let office: Office

  before(async () => {
    office = await startOffice()
  })

  after(() => office[Symbol.asyncDispose]())

  it('counts for nobody but a reviewer, whatever of it is changed, alone or with others', async () => {
    const legitimate = new Set(['ann', 'bo'])
    const all = (Object.keys(people) as Who[]).flatMap((who) =>
      Object.keys(changes).flatMap((change) =>
        [1, 2].flatMap((count) =>
          // The key and the credential of bo are those of bo's own vote.
          legitimate.has(who) && (change === 'nothing' || (who === 'bo' && change.endsWith('of bo')))
            ? []
            : [{ who, change, count }],
        ),
      ),
    )
    const tried =
      fc.sample(fc.shuffledSubarray(all, { minLength: all.length }), { numRuns: 1, seed: 28 })[0] ?? []
    const sample = tried.slice(0, propertyRuns(100))
    // Each person with all of it right, and each change by one who might vote.
    const rest = all.filter(
      ({ who, change, count }) => count === 1 && (change === 'nothing' || who === 'ann'),
    )
    for (const { who, change, count } of new Set([...sample, ...rest])) {
      const response = await attempt(office, who, changes[change] ?? {}, office.waiting.slice(0, count))
      expect(isAccepted(response), `${who}, ${change}, ${count}: ${response.text}`).to.equal(false)
    }
    for (const id of office.waiting)
      expect(await office.show(id)).to.deep.include({ status: 'pending', votes: [] })
    expect(office.records().some(({ tool }) => tool === 'escalations/vote@1')).to.equal(false)
  })

  it('counts once for a reviewer, and not again, elsewhere, otherwise or by somebody else', async () => {
    const [id] = office.waiting
    let captured: Json = {}
    const capture: Change = {
      sent(passkey) {
        captured = passkey
        return passkey
      },
    }
    const voted = await attempt(office, 'ann', capture, [id])
    expect(isAccepted(voted), voted.text).to.equal(true)
    const replays: [Who, string, object][] = [
      ['ann', id, given],
      ['ann', office.waiting[1], given],
      ['ann', office.waiting[1], { ...given, vote: 'reject' }],
      ['ann', office.other, given],
      ['ann', id, { ...given, comment: 'otherwise' }],
      ['bo', id, given],
      ['the caller', id, given],
      ['an agent with the admin token', id, given],
    ]
    for (const [who, on, body] of replays) {
      const response = await office.post(who, `/api/escalations/${on}/votes`, { ...body, passkey: captured })
      expect(isAccepted(response), `${who}: ${response.text}`).to.equal(false)
    }
    expect(await office.show(id)).to.include({ status: 'pending' })
    expect((await office.call(1)).status).to.equal(403)
    const decided = await attempt(office, 'bo', {}, office.waiting)
    expect(isAccepted(decided), decided.text).to.equal(true)
    expect(await office.show(id)).to.include({ status: 'approved' })
    expect(await office.show(office.waiting[1])).to.include({ status: 'pending' })
    expect((await office.call(1)).status).to.equal(200)
    expect((await office.call(2)).status).to.equal(403)
  })

  it('does not count by a passkey that an agent with the tokens of all reviewers registers', async () => {
    const { agents, origin, other } = office
    const { json } = await office.post('bo', '/api/passkeys/challenge', {})
    const { credentialId, clientDataJson, attestationObject } = agents.register(
      String(json['challenge']),
      origin,
    )
    const registered = await office.post('bo', '/api/passkeys', {
      nonce: json['nonce'],
      credential_id: credentialId,
      client_data_json: clientDataJson,
      attestation_object: attestationObject,
    })
    expect(registered.status, registered.text).to.equal(200)
    const enrolment = String(registered.json['id'])
    for (const who of Object.keys(people) as Who[]) {
      for (const change of [
        { by: 'a key of the agent' },
        { by: 'a key of the agent', credential: agents.id },
      ] as const) {
        for (const id of [enrolment, other]) {
          const response = await attempt(office, who, change, [id])
          expect(isAccepted(response), `${who}: ${response.text}`).to.equal(false)
        }
      }
    }
    for (const who of Object.keys(people) as Who[]) {
      if (['bo', 'an operator', 'an agent with the admin token'].includes(who)) continue
      const response = await office.post(who, `/api/passkeys/${enrolment}/revoke`, {})
      expect(response.status, `${who}: ${response.text}`).to.be.oneOf([403, 404])
    }
    expect(await office.show(enrolment)).to.deep.include({ status: 'pending', votes: [] })
  })
})
