import { expect } from 'chai'
import type { GatewaySettings } from 'svc-sdk'
import { readEvents } from '../../console/event-reader.js'
import { beginSession, sendChange } from '../../console/session-client.js'
import { registrationOf, testPasskey } from '../../support/authenticator.js'
import { auditIn } from '../../support/gateway.js'
import { TestIssuer } from '../../support/issuer.js'
import { ofSuite } from '../../support/parts.js'
import { until } from '../../support/stdio-target.js'
import { startUpstream } from '../../support/upstream.js'
import { startAdminRig, trusting } from './rig.js'

type Paths = Record<string, Record<string, { operationId: string }>>

/** Reads of counts and names alone, as docs/admin.md says, and of the document itself. */
const unrecordedReads = [
  'list_servers',
  'read_health',
  'read_metrics',
  'read_openapi',
  'show_clients',
  'show_log',
  'show_session',
  'show_status',
]

/** What the rig's policy does not have: 404, and nothing is read. */
const absent = ['show_shadow']

/** What they return has an effect only with a later request, which is on record; an activity renews a cookie. */
const unrecordedPosts = ['challenge_passkey', 'challenge_vote', 'challenge_votes', 'keep_session']

/** What reads need; their ids are of nothing, which their record says. */
const queries: Readonly<Record<string, string>> = {
  preview_switch: '?server=billing&tool=get_invoice',
  read_access: '?kind=anyone&tenant=acme&name=',
}

/** The records of changes. Those of these two are in test/app/admin/policy-reload.test.ts and test/console/servers.test.ts. */
const changes: Readonly<Record<string, string>> = {
  accept_definitions: '',
  enrol_passkey: 'escalations/open',
  explain_call: 'admin/explain_call',
  lift_block: 'blocks/lift',
  reload_policy: '',
  revoke_passkey: 'escalations/revoke',
  set_block: 'blocks/set',
  sign_in: 'admin/sign_in',
  sign_out: 'admin/sign_out',
  turn_off_tool: 'blocks/set',
  vote: 'escalations/vote',
  vote_on_several: 'escalations/vote',
}

const ada = 'ada@example.com'

describe('on record, with the action and the person, is', () => {
  let bearer: string

  const listed = testPasskey()

  const policy = (): Partial<GatewaySettings> => ({
    admin: {
      port: 0,
      tokenRef: 'env:SVC_ADMIN',
      roles: { reviewer: ['approver'], operator: ['ops'] },
      console: { edit: true },
      passkeys: [{ user: 'cy@example.com', id: listed.id, public_key: listed.publicKey }],
    },
    targets: { billing: upstream.url },
    plugins: [],
    rules: [{ name: 'refunds', tools: ['billing/refund_payment'], then: 'escalate' }],
    security: { side_effects: { approve_high_risk: true } },
    enforcement: { escalations: { adapter: 'memory' } },
    protections: { preset: 'guard' },
  })

  const issuer = ofSuite(() => TestIssuer.start())
  const upstream = ofSuite(() => startUpstream())
  const rig = ofSuite(() =>
    startAdminRig((home) => ({
      ...trusting(issuer),
      audit: { ...auditIn(home), checkpointIntervalMs: 100 },
      ...policy(),
    })),
  )
  before(async () => {
    bearer = await issuer.sign({ email: ada, roles: ['approver', 'ops'] })
  })

  /** The console is at one name alone. */
  const origin = () => `http://localhost:${new URL(rig.adminUrl).port}`

  const send = (path: string, body?: object) =>
    rig.admin(path, {
      headers: { authorization: `Bearer ${bearer}`, 'content-type': 'application/json' },
      ...(body === undefined ? {} : { method: 'POST', body: JSON.stringify(body) }),
    })

  /** The records of what `act` did: event, decision, person. */
  async function recordsOf(act: () => Promise<unknown>): Promise<(readonly [string, unknown, unknown])[]> {
    const before = rig.gateway.records().length
    await act()
    return rig.gateway
      .records()
      .slice(before)
      .map(({ tool, policy, principal }) => [tool, policy?.decision, principal?.['user']])
  }

  async function operationsOf(methods: readonly string[]) {
    const { paths } = (await send('/api/openapi.json')).json as unknown as { paths: Paths }
    return Object.entries(paths).flatMap(([path, operations]) =>
      Object.entries(operations).flatMap(([method, { operationId: name }]) =>
        methods.includes(method) ? [{ path, name }] : [],
      ),
    )
  }

  it('each read that the OpenAPI document has, but those of counts and names', async () => {
    const reads = await operationsOf(['get'])
    await rig.gateway.invoke('/mcp/billing/get_invoice@1.0.0', {}, { authorization: `Bearer ${bearer}` })
    await until(async () => (await rig.admin('/api/evidence')).status === 200)
    expect(reads.map(({ name }) => name)).to.include.members(unrecordedReads)
    for (const { path, name } of reads) {
      const url = `${path.replace('{id}', 'none')}${queries[name] ?? ''}`
      let status = 200
      const found = await recordsOf(async () => {
        if (name !== 'watch_events') status = (await send(url)).status
        else {
          await using events = await readEvents(rig.adminUrl, '', { authorization: `Bearer ${bearer}` })
          await events.next('status')
        }
      })
      expect(status, name).to.be.oneOf([200, 404])
      const decision = status === 200 ? 'allow' : 'deny'
      const expected = [...unrecordedReads, ...absent].includes(name)
        ? []
        : [[`admin/${name}@1`, decision, ada]]
      const own = found.filter(([event]) => event.startsWith('admin/'))
      expect(own, url).to.deep.equal(expected)
    }
  })

  it('each change that the OpenAPI document has', async () => {
    const names = (await operationsOf(['post', 'delete'])).map(({ name }) => name)
    expect(names).to.have.members([...Object.keys(changes), ...unrecordedPosts])
    const done: Record<string, readonly (readonly [string, unknown, unknown])[]> = {}
    const change = async (name: string, act: () => Promise<{ status: number; text: string }>) => {
      done[name] = await recordsOf(async () => {
        const { status, text } = await act()
        expect(status, `${name}: ${text}`).to.equal(200)
      })
    }
    const session = { value: undefined as Awaited<ReturnType<typeof beginSession>> | undefined }
    done['sign_in'] = await recordsOf(async () => {
      session.value = await beginSession(origin(), bearer)
    })
    await change('sign_out', async () =>
      sendChange(origin(), session.value!, '/api/session', { method: 'DELETE', body: '' }),
    )
    const call = { tenant: 'acme', server: 'billing', tool: 'get_invoice', arguments: {} }
    await change('explain_call', () => send('/api/policy/explain', call))
    const block = { kind: 'server', pattern: 'x', for_sec: 60, reason: 'a test' }
    let id = ''
    await change('set_block', async () => {
      const response = await send('/api/blocks', block)
      id = (response.json['block'] as { id: string }).id
      return response
    })
    await change('lift_block', () => send(`/api/blocks/${id}/lift`, {}))
    const { policy_sha256 } = (await send('/api/policy/switch?server=billing&tool=get_invoice')).json
    const tool = { server: 'billing', tool: 'get_invoice', reason: 'a test', policy_sha256 }
    await change('turn_off_tool', () => send('/api/policy/switch', tool))
    await change('vote', async () => send(`/api/escalations/${await held(1)}/votes`, { vote: 'reject' }))
    await change('vote_on_several', async () => {
      const escalations = [{ id: await held(2) }]
      return send('/api/escalations/votes', { vote: 'reject', escalations })
    })
    // Votes of this policy need none, and an enrolment needs a policy whose votes do.
    await rig.gateway.handle.reload({
      ...policy(),
      tenant: 'acme',
      port: 0,
      security: { side_effects: { approve_high_risk: true, human_escalation: { require: 'passkey' } } },
    })
    await change('enrol_passkey', async () => {
      const challenge = (await send('/api/passkeys/challenge', {})).json
      const response = await send(
        '/api/passkeys',
        registrationOf(testPasskey('YWRhcy1wYXNza2V5'), challenge, origin()),
      )
      id = String(response.json['id'])
      return response
    })
    await change('revoke_passkey', () => send(`/api/passkeys/${id}/revoke`, {}))
    for (const [name, event] of Object.entries(changes)) {
      if (event === '') continue
      const own = done[name]?.filter(([recorded]) => recorded === `${event}@1`) ?? []
      expect(own.length, `${name}: ${JSON.stringify(done[name])}`).to.be.at.least(1)
      for (const [, , user] of own) expect(user, name).to.equal(ada)
    }
  })

  /** The id of a call that waits. */
  async function held(amount: number): Promise<string> {
    const headers = { authorization: `Bearer ${await issuer.sign({ email: 'bob@example.com', sub: 'bob' })}` }
    const path = '/mcp/billing/refund_payment@1.0.0'
    const response = await rig.gateway.invoke(path, { amount }, headers)
    return ((await response.json()) as { escalation_id: string }).escalation_id
  }
})
