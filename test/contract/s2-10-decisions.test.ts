import { expect } from 'chai'
import type { GatewaySettings } from 'svc-sdk'
import { ask } from '../app/admin/rig.js'
import { TestIssuer } from '../support/issuer.js'
import { denialOf, refused, type Serving, serving } from './rig.js'
import { contractSection } from './section.js'

const evil = { args: { url: 'https://evil.example/' } }
const both = { args: { url: 'https://evil.example/', path: '/etc/passwd' } }
const security = { egress_allowlist: ['good.example'], fs_allowlist: ['/srv/**'] }
const nothingAllowed: GatewaySettings['entitlements'] = {
  default_plan: 'free',
  plans: { free: { allowlist: [] } },
  tenants: {},
}

contractSection('2.10', 'privacy, enforcement', ({ holds }) => {
  holds('a', '`privacy.redact_identities` redacts identity data in gateway spans.', async () => {
    await using issuer = await TestIssuer.start()
    await using rig = await serving({
      authn: { oidc: issuer.oidc },
      privacy: { redact_identities: true },
    })
    const authorization = `Bearer ${await issuer.sign()}`
    const { record } = await rig.call({ headers: { authorization, 'x-node-id': 'desk-of-ada' } })
    for (const text of ['ada@example.com', 'desk-of-ada']) expect(JSON.stringify(record)).to.not.include(text)
    expect(record).to.include({ tool: 'read@1.0.0', status: 'ok' })
  })
  holds('b', '`enforcement.mode` `observe` records what would be denied, and denies nothing.', async () => {
    await using rig = await serving({ security, enforcement: { mode: 'observe' } })
    const { status, record } = await rig.call(evil)
    expect(status).to.equal(200)
    expect(record.policy.decision).to.equal('allow')
    expect(record.findings?.[0]).to.include({ reason: 'egress_violation', effect: 'would_deny' })
  })
  holds('c', '`enforcement.mode` `enforce` denies.', async () => {
    await using rig = await serving({ security, enforcement: { mode: 'enforce' } })
    expect(await denialOf(rig, evil)).to.equal('egress_violation')
  })
  holds('d', '`enforcement.mode` accepts these two values only.', () =>
    refused({ enforcement: { mode: 'warn' } }, 'enforcement.mode', 'accepted is observe or enforce'),
  )
  holds('e', '`enforcement.deny_on` names the reasons that cause denial; others do not.', async () => {
    await using rig = await serving({ security, enforcement: { deny_on: ['fs_violation'] } })
    expect((await rig.call(evil)).status).to.equal(200)
    expect(await denialOf(rig, both)).to.equal('fs_violation')
  })
  holds('f', '`tool_not_in_allowlist` is a reason of `deny_on`.', async () => {
    const entitlements = nothingAllowed
    await using rig = await serving({ entitlements, enforcement: { deny_on: ['tool_not_in_allowlist'] } })
    expect(await denialOf(rig)).to.equal('tool_not_in_allowlist')
    await using open = await serving({ entitlements, enforcement: { deny_on: [] } })
    expect((await open.call()).status).to.equal(200)
  })
  holds('g', '`enforcement.escalate_on` names the reasons that cause escalation.', async () => {
    await using rig = await serving({
      security: { ...security, side_effects: { approve_high_risk: true } },
      enforcement: { escalate_on: ['egress_violation'] },
    })
    const { body } = await rig.call(evil)
    expect(body).to.include({ error: 'ESCALATION_PENDING', escalation_status: 'pending' })
    expect(await denialOf(rig, { args: { path: '/etc/passwd' } })).to.equal('fs_violation')
  })
  holds('h', '`deny_on` and `escalate_on` are lists of strings; a misspelt reason is refused.', () => {
    for (const key of ['deny_on', 'escalate_on']) {
      refused({ enforcement: { [key]: 'x' } }, `enforcement.${key}`, 'is given')
      refused({ enforcement: { [key]: ['egres_violation'] } }, `enforcement.${key}[0]`, 'egress_violation')
    }
  })
})

contractSection('2.12', 'security', ({ holds }) => {
  holds('a', '`allow_versions` lists the allowed versions per server.', async () => {
    await using rig = await serving({ security: { allow_versions: { files: ['1.0.0', '2.*'] } } })
    for (const tool of ['read@1.0.0', 'read@2.7.1']) expect((await rig.call({ tool })).status).to.equal(200)
    for (const tool of ['read@1.0.1', 'read@3.0.0', 'read@unversioned'])
      expect(await denialOf(rig, { tool })).to.equal('version_unpinned')
  })
  holds('b', '`egress_allowlist` lists the allowed hosts.', async () => {
    await using rig = await serving({ security: { egress_allowlist: ['good.example'] } })
    expect((await rig.call({ args: { url: 'https://good.example/x' } })).status).to.equal(200)
    expect(await denialOf(rig, evil)).to.equal('egress_violation')
  })
  holds('c', 'A host pattern may begin with a wildcard.', async () => {
    await using rig = await serving({ security: { egress_allowlist: ['*.good.example'] } })
    expect((await rig.call({ args: { url: 'https://api.good.example/' } })).status).to.equal(200)
    expect(await denialOf(rig, { args: { url: 'https://evilgood.example/' } })).to.equal('egress_violation')
  })
  holds('d', '`fs_allowlist` lists the allowed paths.', async () => {
    await using rig = await serving({ security: { fs_allowlist: ['/srv/**'] } })
    expect((await rig.call({ args: { path: '/srv/a/b' } })).status).to.equal(200)
    expect(await denialOf(rig, { args: { path: '/srv/../etc/passwd' } })).to.equal('fs_violation')
  })
  holds('e', '`limits.max_payload_kb` is the largest payload, in kilobytes.', async () => {
    await using rig = await serving({ security: { limits: { max_payload_kb: 1 } } })
    expect((await rig.call({ args: { t: 'x'.repeat(400) } })).status).to.equal(200)
    const { body, status } = await rig.call({ args: { t: 'x'.repeat(1100) } })
    expect(body).to.include({ error: 'PAYLOAD_TOO_LARGE', denial_reason: 'payload_too_large' })
    expect(status).to.equal(413)
  })
  holds('f', '`limits.max_duration_ms` is the longest duration, in milliseconds.', async () => {
    const silent = () => undefined
    await using rig = await serving({ security: { limits: { max_duration_ms: 100 } } }, silent)
    const { body, status } = await rig.call()
    expect(body).to.include({ error: 'DURATION_EXCEEDED', denial_reason: 'duration_too_long' })
    expect(status).to.equal(504)
  })
  holds('g', '`side_effects.require_idempotency_key`: side-effecting calls must carry a key.', async () => {
    await using rig = await serving({ security: { side_effects: { require_idempotency_key: true } } })
    const tool = 'delete_invoice@1.0.0'
    expect(await denialOf(rig, { tool })).to.equal('missing_idempotency_for_side_effect')
    expect((await rig.call({ tool, headers: { 'idempotency-key': 'k' } })).status).to.equal(200)
    expect((await rig.call()).status).to.equal(200)
  })
  holds('h', '`side_effects.approve_high_risk` enables escalations; without it there are none.', async () => {
    const enforcement = { escalate_on: ['egress_violation'] }
    await using on = await serving({
      enforcement,
      security: { ...security, side_effects: { approve_high_risk: true } },
    })
    expect((await on.call(evil)).body).to.include({ error: 'ESCALATION_PENDING' })
    await using off = await serving({ enforcement, security })
    expect(await denialOf(off, evil)).to.equal('egress_violation')
  })
  for (const [letter, key] of [
    ['i', 'human_escalation'],
    ['j', 'humanEscalation'],
  ] as const) {
    holds(letter, `\`side_effects.${key}\` is the approval strategy.`, async () => {
      await using rig = await serving({
        security: {
          ...security,
          side_effects: { approve_high_risk: true, [key]: { approval_strategy: 'auto_allow' } },
        },
        enforcement: { escalate_on: ['egress_violation'] },
      })
      expect((await rig.call(evil)).status).to.equal(200)
    })
  }
})

type Human = NonNullable<
  NonNullable<NonNullable<GatewaySettings['security']>['side_effects']>['human_escalation']
>

interface Escalating extends AsyncDisposable {
  readonly rig: Serving
  token(): Promise<string>
  /** Asks for a call that needs approval: the escalation's id. */
  open(): Promise<string>
  /** Votes as another person with these roles; the escalation's state after it, or the code of the refusal. */
  vote(id: string, vote: 'approve' | 'reject', person: string, ...roles: string[]): Promise<string>
}

async function escalating(human: Human, sets: object = {}): Promise<Escalating> {
  const issuer = await TestIssuer.start()
  const rig = await serving({
    authn: { oidc: issuer.oidc },
    admin: { port: 0, roles: { reviewer: ['reviewer'] }, ...sets },
    security: { ...security, side_effects: { approve_high_risk: true, human_escalation: human } },
    enforcement: { escalate_on: ['egress_violation'] },
  })
  const bearer = async (claims: object) => ({ authorization: `Bearer ${await issuer.sign({ ...claims })}` })
  return {
    rig,
    token: () => issuer.sign(),
    async open() {
      const { body } = await rig.call({ ...evil, headers: await bearer({}) })
      return String(body['escalation_id'])
    },
    async vote(id, vote, person, ...roles) {
      const { adminUrl = '' } = await rig.gateway.handle.ready()
      const claims = { sub: person, email: `${person}@example.com`, roles }
      const { json } = await ask(adminUrl, `/api/escalations/${id}/votes`, {
        method: 'POST',
        headers: { ...(await bearer(claims)), 'content-type': 'application/json' },
        body: JSON.stringify({ vote }),
      })
      return String(json['error'] ?? json['escalation_status'] ?? json['status'])
    },
    async [Symbol.asyncDispose]() {
      await rig[Symbol.asyncDispose]()
      await issuer[Symbol.asyncDispose]()
    },
  }
}

contractSection('2.12', 'security: the human escalation object', ({ holds }) => {
  holds('k', '`approval_strategy` `auto_allow` approves at once.', async () => {
    await using all = await escalating({ approval_strategy: 'auto_allow' })
    const id = await all.open()
    expect(all.rig.upstream.calls).to.have.length(1)
    expect(id).to.equal('undefined')
    expect(all.rig.gateway.records().some(({ escalation_id }) => escalation_id !== undefined)).to.equal(true)
  })
  holds('l', '`approval_strategy` `single_approver`: one vote decides.', async () => {
    await using all = await escalating({ approval_strategy: 'single_approver' })
    expect(await all.vote(await all.open(), 'approve', 'bob', 'reviewer')).to.equal('approved')
  })
  holds('m', '`approval_strategy` `human_quorum`: a quorum decides.', async () => {
    await using all = await escalating({ approval_strategy: 'human_quorum', min_approvals: 2 })
    const id = await all.open()
    expect(await all.vote(id, 'approve', 'bob', 'reviewer')).to.equal('pending')
    expect(await all.vote(id, 'approve', 'cleo', 'reviewer')).to.equal('approved')
  })
  for (const [letter, action, status] of [
    ['n', 'auto_approve', 'approved'],
    ['o', 'auto_reject', 'rejected'],
  ] as const) {
    holds(letter, `\`timeout_action\` \`${action}\` decides when the escalation expires.`, async () => {
      await using all = await escalating({ timeout_action: action, ttl_sec: 1 })
      const id = await all.open()
      // The caller waits until the decision, which is the time-out's.
      const headers = { authorization: `Bearer ${await all.token()}`, 'x-escalation-wait': '10' }
      const { status: http, body } = await all.rig.call({ ...evil, headers })
      expect({ http, error: body['error'] }, id).to.deep.equal(
        status === 'approved' ? { http: 200, error: undefined } : { http: 403, error: 'ESCALATION_REJECTED' },
      )
    })
  }
  holds('p', '`min_approvals` is the approval quorum.', async () => {
    await using all = await escalating({ min_approvals: 3 })
    const id = await all.open()
    expect(await all.vote(id, 'approve', 'bob', 'reviewer')).to.equal('pending')
    expect(await all.vote(id, 'approve', 'cleo', 'reviewer')).to.equal('pending')
    expect(await all.vote(id, 'approve', 'dan', 'reviewer')).to.equal('approved')
  })
  holds('q', '`min_rejections` is the rejection quorum.', async () => {
    await using all = await escalating({ min_rejections: 2 })
    const id = await all.open()
    expect(await all.vote(id, 'reject', 'bob', 'reviewer')).to.equal('pending')
    expect(await all.vote(id, 'reject', 'cleo', 'reviewer')).to.equal('rejected')
  })
  holds('r', '`required_roles` must appear on approval votes.', async () => {
    await using all = await escalating({ required_roles: ['finance'] })
    const id = await all.open()
    expect(await all.vote(id, 'approve', 'bob', 'reviewer')).to.equal('pending')
    expect(await all.vote(id, 'approve', 'cleo', 'reviewer', 'finance')).to.equal('approved')
  })
  holds('s', '`veto_roles` can force rejection.', async () => {
    await using all = await escalating({ min_rejections: 5, veto_roles: ['legal'] })
    const id = await all.open()
    expect(await all.vote(id, 'reject', 'bob', 'reviewer')).to.equal('pending')
    expect(await all.vote(id, 'reject', 'cleo', 'reviewer', 'legal')).to.equal('rejected')
  })
  holds('t', '`approval_set_id` overrides the set of reviewers.', async () => {
    const sets = { approval_sets: { payments: { users: ['cleo@example.com'] } } }
    await using all = await escalating({ approval_set_id: 'payments' }, sets)
    const id = await all.open()
    expect(await all.vote(id, 'approve', 'bob', 'reviewer')).to.equal('TOOL_NOT_ALLOWED')
    expect(await all.vote(id, 'approve', 'cleo')).to.equal('approved')
  })
  holds('u', 'Every key is optional, and other values of the named sets are refused.', () => {
    for (const [key, accepted] of [
      ['approval_strategy', 'auto_allow, single_approver or human_quorum'],
      ['timeout_action', 'auto_approve or auto_reject'],
    ]) {
      const side_effects = { approve_high_risk: true, human_escalation: { [key ?? '']: 'maybe' } }
      refused({ security: { side_effects } }, `security.side_effects.human_escalation.${key}`, accepted)
    }
  })
})
