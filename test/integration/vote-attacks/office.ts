// A gateway whose votes need passkeys, calls that wait at it, and people who try to vote.
import { adminToken, ask, type HttpResponse } from '../../app/admin/rig.js'
import { type TestPasskey, testPasskey } from '../../support/authenticator.js'
import { startTestGateway } from '../../support/gateway.js'
import { TestIssuer } from '../../support/issuer.js'
import { startUpstream } from '../../support/upstream.js'

export type Json = Record<string, unknown>

export interface Person {
  readonly user: string
  readonly subject: string
  readonly roles: readonly string[]
  readonly tenant?: string
}

/** Each has a passkey of their own, which the policy lists. */
export const people = {
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

export type Who = keyof typeof people

export interface Office extends AsyncDisposable {
  readonly origin: string
  readonly logId: string
  /** Two calls that wait, and a third. */
  readonly waiting: readonly [string, string]
  readonly other: string
  readonly agents: TestPasskey
  readonly keys: Readonly<Record<Who, TestPasskey>>
  post(who: Who, path: string, body: object): Promise<HttpResponse>
  show(id: string): Promise<Json>
  records(): readonly { readonly tool: string }[]
  call(n: number): Promise<Response>
}

export async function startOffice(): Promise<Office> {
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
  const signed = names.map(async (who) => {
    const { user, subject, roles, tenant = 'acme' }: Person = people[who]
    const isAgent = who === 'an agent with the admin token'
    return [who, isAgent ? adminToken : await issuer.sign({ email: user, sub: subject, org: tenant, roles })]
  })
  const tokens = Object.fromEntries(await Promise.all(signed)) as Record<Who, string>
  const headersOf = (who: Who) => ({
    authorization: `Bearer ${tokens[who]}`,
    'content-type': 'application/json',
  })
  const call = (n: number) =>
    gateway.invoke('/mcp/billing/pay@1', { url: 'https://elsewhere.example/', n }, headersOf('the caller'))
  const opened = [1, 2, 3].map(async (n) => String(((await (await call(n)).json()) as Json)['escalation_id']))
  const [first = '', second = '', other = ''] = await Promise.all(opened)
  return {
    origin: `http://localhost:${new URL(adminUrl).port}`,
    logId: String((gateway.records()[0] as unknown as Json)['log_id']),
    waiting: [first, second],
    other,
    agents: testPasskey(),
    keys,
    post: (who, path, body) =>
      ask(adminUrl, path, { method: 'POST', headers: headersOf(who), body: JSON.stringify(body) }),
    show: async (id) => (await ask(adminUrl, `/api/escalations/${id}`, { headers: headersOf('ann') })).json,
    records: () => gateway.records(),
    call,
    async [Symbol.asyncDispose]() {
      await gateway[Symbol.asyncDispose]()
      await upstream[Symbol.asyncDispose]()
      await issuer[Symbol.asyncDispose]()
    },
  }
}
