// Votes that need a passkey, through the ports of a gateway, and the check of their records.
import { verifyLog } from '@svc/plugin-audit/tools'
import { expect } from 'chai'
import { LogBuilder } from '../../support/audit-log.js'
import { type TestPasskey, testPasskey } from '../../support/authenticator.js'
import { startTestGateway, type TestGateway } from '../../support/gateway.js'
import { TemporaryDir } from '../../support/temporary-dir.js'
import { startUpstream } from '../../support/upstream.js'
import { adminToken, ask, type HttpResponse } from '../admin/rig.js'

type Json = Record<string, unknown>

interface Office extends AsyncDisposable {
  readonly gateway: TestGateway
  readonly origin: string
  post(path: string, body: object): Promise<HttpResponse>
  call(): Promise<Response>
}

async function startOffice({ id, publicKey }: TestPasskey): Promise<Office> {
  const upstream = await startUpstream()
  const gateway = await startTestGateway({
    targets: { billing: upstream.url },
    admin: { port: 0, tokenRef: 'env:SVC_ADMIN', passkeys: [{ id, public_key: publicKey }] },
    env: { SVC_ADMIN: adminToken },
    security: {
      egress_allowlist: [],
      side_effects: { approve_high_risk: true, human_escalation: { require: 'passkey' } },
    },
    enforcement: { escalate_on: ['egress_violation'], escalations: { adapter: 'memory' } },
  })
  const { adminUrl = '' } = await gateway.handle.ready()
  return {
    gateway,
    origin: `http://localhost:${new URL(adminUrl).port}`,
    post: (path, body) =>
      ask(adminUrl, path, {
        method: 'POST',
        headers: { authorization: `Bearer ${adminToken}`, 'content-type': 'application/json' },
        body: JSON.stringify(body),
      }),
    call: () => gateway.invoke('/mcp/billing/pay@1', { url: 'https://elsewhere.example/' }),
    async [Symbol.asyncDispose]() {
      await gateway[Symbol.asyncDispose]()
      await upstream[Symbol.asyncDispose]()
    },
  }
}

/** Approves the waiting call with the passkey, and returns the record of the vote. */
async function approve(office: Office, own: TestPasskey): Promise<Json> {
  const { escalation_id: id } = (await (await office.call()).json()) as Json
  const path = `/api/escalations/${id}`
  const given = { vote: 'approve', comment: 'seen the invoice' }
  const { challenge, nonce } = (await office.post(`${path}/challenge`, given)).json
  const response = own.respond(String(challenge), office.origin)
  const passkey = {
    nonce,
    credential_id: own.id,
    authenticator_data: response.authenticatorData,
    client_data_json: response.clientDataJson,
    signature: response.signature,
  }
  const { status, text } = await office.post(`${path}/votes`, { ...given, passkey })
  expect(status, text).to.equal(200)
  const record = office.gateway.records().find(({ tool }) => tool === 'escalations/vote@1')
  return (record ?? expect.fail('no record')) as unknown as Json
}

/** Verifies a log that has this record alone, signed with the key of the log. */
async function verdict({ sig, seq, key_id, log_id, ...record }: Json, logId: string) {
  using dir = new TemporaryDir()
  const log = new LogBuilder(dir.path, { logId: `${logId}${'0'.repeat(16)}` })
  log.record(String(record['ts']).slice(0, 10), log_id === logId ? record : { ...record, log_id })
  log.seal()
  log.finish()
  const { failures } = await verifyLog(dir.path, { threads: 1 })
  return failures.map(({ kind }) => kind)
}

/** Each text below a value: its path, and the value with another text there. */
function* alterations(value: unknown, path = ''): Generator<[path: string, altered: unknown]> {
  if (typeof value === 'string')
    yield [path, value === 'approve' ? 'reject' : `${value.slice(0, -1)}${value.endsWith('A') ? 'B' : 'A'}`]
  if (typeof value !== 'object' || value === null) return
  for (const [name, inner] of Object.entries(value)) {
    for (const [at, altered] of alterations(inner, `${path}.${name}`)) {
      yield [
        at,
        Array.isArray(value)
          ? value.map((one, n) => (String(n) === name ? altered : one))
          : { ...value, [name]: altered },
      ]
    }
    if (!Array.isArray(value)) {
      const { [name]: _, ...rest } = value as Json
      yield [`${path}.${name} removed`, rest]
    }
  }
}

describe('a vote that needs a passkey', () => {
  const own = testPasskey()

  it('is not cast by whoever has the admin token alone, and lets the call through with the passkey', async () => {
    await using office = await startOffice(own)
    const { escalation_id: id } = (await (await office.call()).json()) as Json
    const refused = await office.post(`/api/escalations/${id}/votes`, { vote: 'approve' })
    expect(refused.status).to.equal(403)
    expect(refused.json).to.include({ error: 'TOOL_NOT_ALLOWED', denial_reason: 'passkey_required' })
    const forged = testPasskey(own.id)
    const { challenge, nonce } = (await office.post(`/api/escalations/${id}/challenge`, { vote: 'approve' }))
      .json
    const { authenticatorData, clientDataJson, signature } = forged.respond(String(challenge), office.origin)
    const passkey = {
      nonce,
      credential_id: own.id,
      authenticator_data: authenticatorData,
      client_data_json: clientDataJson,
      signature,
    }
    const other = await office.post(`/api/escalations/${id}/votes`, { vote: 'approve', passkey })
    expect(other.json).to.include({ denial_reason: 'passkey_required' })
    expect((await office.call()).status).to.equal(403)
    await approve(office, own)
    expect((await office.call()).status).to.equal(200)
    const verdictWith = ({ publicKey }: TestPasskey) =>
      verifyLog(office.gateway.dir, {
        passkeys: [{ public_key: publicKey }],
        voters: { reviewerRoles: ['approver'] },
      })
    expect(await verdictWith(own)).to.include({ verdict: 'intact', provenVotes: 1, unjudgedVotes: 0 })
    expect((await verdictWith(forged)).failureCounts).to.deep.equal({ bad_vote: 2 })
  })

  it('is red in a log that is signed again with any of its members changed', async () => {
    await using office = await startOffice(own)
    const record = await approve(office, own)
    const logId = String(record['log_id'])
    expect(await verdict(record, logId)).to.deep.equal([])
    const { event, escalation_id, input_sha256, policy, findings, log_id } = record
    const { decision } = policy as Json
    const parts = { event, escalation_id, input_sha256, findings, log_id, policy: { decision } }
    let tried = 0
    for (const [path, altered] of alterations(parts)) {
      // What gave rise to the call is not part of the vote.
      if (/findings\.\d\.(?!detail)/.test(path)) continue
      const { policy: changed, ...rest } = altered as Json
      const whole = { ...record, ...rest, policy: { ...(policy as Json), ...(changed as Json) } }
      for (const name of Object.keys(parts))
        if (!(name in (altered as Json)) && name !== 'policy') Reflect.deleteProperty(whole, name)
      if (path === '.policy removed' || path === '.policy.decision removed' || path === '.event removed')
        continue
      expect(await verdict(whole, logId), path).to.not.deep.equal([])
      tried++
    }
    expect(tried).to.be.above(25)
    const { ts, error } = record
    expect(error).to.be.oneOf([null, undefined])
    const hour = Number(String(ts).slice(11, 13))
    const later = String(ts).replace(/T\d\d/, `T${String((hour + 12) % 24).padStart(2, '0')}`)
    for (const changed of [
      { principal: { user: 'eve@example.com' } },
      { principal: { roles: ['treasurer'] } },
      { ts: later },
      { error: 'DECIDED', status: 'error' },
      { error: 'DECIDED', event: { ...(event as Json), proof: 'late' } },
    ]) {
      expect(await verdict({ ...record, ...changed }, logId), JSON.stringify(changed)).to.deep.equal([
        'bad_vote',
      ])
    }
  })
})
