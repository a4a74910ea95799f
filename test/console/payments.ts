// A gateway in front of a billing service, whose refunds above 100 wait for approval: what the pictures of the console show.

import type { BrowserContextOptions, Page } from 'playwright-core'
import type { GatewaySettings } from 'svc-sdk'
import type { EscalationJson } from 'svc-sdk/internal/escalations/escalation-json'
import { adminToken, ask } from '../app/admin/rig.js'
import type { Chromium } from '../support/chromium.js'
import { TestIssuer } from '../support/issuer.js'
import { startUpstream, type TestUpstream } from '../support/upstream.js'
import { type ConsoleRig, signIn, startConsole } from './rig.js'

export interface Payments extends ConsoleRig {
  readonly issuer: TestIssuer
  readonly upstream: TestUpstream
  /** A call of `user` through agent-7. */
  call(tool: string, args: object, given?: CallOptions): Promise<Response>
  /** A page of a user who is signed in; default: a reviewer of acme. */
  pageOf(
    user: string,
    path: string,
    options?: BrowserContextOptions,
    roles?: readonly string[],
    tenant?: string,
  ): Promise<Page>
  /** A call that waits; resolves to the id of its escalation. */
  waits(tool: string, args: object, given?: CallOptions): Promise<string>
  escalation(id: string): Promise<EscalationJson>
  /** A vote by the API; default: of cy@example.com, an approver. */
  vote(
    id: string,
    vote: 'approve' | 'reject',
    given?: { user?: string; roles?: readonly string[] },
  ): Promise<void>
}

/** The options of a page on a phone. */
export const phone = { viewport: { width: 390, height: 844 }, hasTouch: true }

interface CallOptions {
  /** Default: bob@example.com. */
  readonly user?: string
  readonly tenant?: string
  readonly roles?: readonly string[]
  /** What the agent says its reason is. */
  readonly reason?: string
  readonly headers?: Record<string, string>
}

const policyOf = (
  { issuer, audience, jwksUri }: TestIssuer,
  url: string,
  more: string,
  escalation: string,
) => `
tenant: acme
targets: { billing: ${url}, crm: ${url} }
authn:
  oidc:
    issuer: ${issuer}
    audience: ${audience}
    jwks_uri: ${jwksUri}
    clockToleranceSec: 0
rules:
  - name: refunds-over-100
    tools: [billing/refund_payment]
    when: args.amount > 100
    then: escalate
    keep: [args.amount]
    message: Refunds over 100 EUR need a second pair of eyes.
  - name: no-deletions
    tools: ["*/delete_*"]
    then: deny
  - name: exports-wait
    tools: [crm/export_contacts]
    then: escalate
security:
  side_effects:
    approve_high_risk: true
    human_escalation: { approval_strategy: human_quorum, ttl_sec: 900, emergency: { roles: [oncall] }${escalation} }
${more}`

const admin = `admin:
  port: 0
  tokenRef: env:SVC_ADMIN
  roles: { reviewer: [approver], auditor: [auditor], viewer: [viewer], operator: [ops] }
`

export async function startPayments(
  browser: Chromium,
  more = admin,
  escalation = '',
  settings: Partial<GatewaySettings> = {},
  respond?: Parameters<typeof startUpstream>[0],
): Promise<Payments> {
  const issuer = await TestIssuer.start()
  const upstream = await startUpstream(respond)
  const rig = await startConsole(browser, {
    ...settings,
    policyYaml: policyOf(issuer, upstream.url, more, escalation),
  })
  const call: Payments['call'] = async (tool, args, options = {}) => {
    const { user = 'bob@example.com', tenant = 'acme', roles = [], reason, headers = {} } = options
    const token = await issuer.sign({ email: user, sub: user, org: tenant, roles })
    const state = Buffer.from(JSON.stringify({ metadata: { reason } })).toString('base64url')
    return rig.gateway.invoke(`/mcp/${tool}@1.0.0`, args, {
      authorization: `Bearer ${token}`,
      'x-agent-ref': 'agent-7',
      ...(reason === undefined ? {} : { 'x-agent-state': state }),
      ...headers,
    })
  }
  return {
    ...rig,
    issuer,
    upstream,
    call,
    async pageOf(user, path, options = {}, roles = ['approver'], tenant = 'acme') {
      const page = await browser.open({ baseURL: rig.origin, ...options })
      await page.goto(path)
      await signIn(page, await issuer.sign({ email: user, sub: user, org: tenant, roles }))
      return page
    },
    async waits(tool, args, options) {
      const response = await call(tool, args, options)
      const { escalation_id: id } = (await response.json()) as { escalation_id?: string }
      if (id === undefined) throw new Error(`the call does not wait: ${response.status}`)
      return id
    },
    async escalation(id) {
      const headers = { authorization: `Bearer ${adminToken}` }
      const { json } = await ask(rig.origin, `/api/escalations/${id}`, { headers })
      return json as unknown as EscalationJson
    },
    async vote(id, vote, { user = 'cy@example.com', roles = ['approver'] } = {}) {
      const token = await issuer.sign({ email: user, sub: user, roles })
      const { status, text } = await ask(rig.origin, `/api/escalations/${id}/votes`, {
        method: 'POST',
        headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
        body: JSON.stringify({ vote }),
      })
      if (status !== 200) throw new Error(text)
    },
    async [Symbol.asyncDispose]() {
      await rig[Symbol.asyncDispose]()
      await upstream[Symbol.asyncDispose]()
      await issuer[Symbol.asyncDispose]()
    },
  }
}
