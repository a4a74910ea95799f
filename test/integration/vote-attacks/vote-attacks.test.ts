// Votes under `require: passkey`, through the ports of a gateway: each person who might try, with each change of the data that
// a passkey signs, one by one and several at once. Only the votes of reviewers whose passkeys signed them count.
import { createHash } from 'node:crypto'
import { batchChallengeOf, challengeOf, nonceOf, type SignedVote } from '@svc/core/passkey'
import { expect } from 'chai'
import fc from 'fast-check'
import type { HttpResponse } from '../../app/admin/rig.js'
import { type OddResponse, registrationOf } from '../../support/authenticator.js'
import { ofSuite } from '../../support/parts.js'
import { propertyRuns } from '../../support/property-runs.js'
import { type Json, type Office, type Person, people, startOffice, type Who } from './office.js'

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
  const office = ofSuite(() => startOffice())

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
    const registered = await office.post('bo', '/api/passkeys', registrationOf(agents, json, origin))
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
