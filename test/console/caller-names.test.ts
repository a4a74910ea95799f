// The name of a caller is the same wherever it is read: in the rows of calls, in the counts, in what waits, in the sentences of
// records; and one caller is one node of the graph.
import { expect } from 'chai'
import { graphOf } from 'svc-sdk/internal/console/ui/servers/graph-model'
import { callerName } from 'svc-sdk/internal/policy-tools/replay/replay'
import { adminToken, ask } from '../app/admin/rig.js'
import { TestIssuer } from '../support/issuer.js'
import { startUpstream } from '../support/upstream.js'
import { startConsole } from './rig.js'

const noBrowser = { problems: () => [] } as never
const headers = { authorization: `Bearer ${adminToken}` }

/** Claims of a token, undefined for a call without one; and the name that the caller has. */
const callers: readonly (readonly [
  claims: Record<string, string> | undefined,
  agent: string,
  name: string,
])[] = [
  [{ email: 'bob@example.com', sub: 'u-1', client_id: 'desktop' }, 'agent-1', 'bob@example.com'],
  [{ email: 'eve@example.com' }, '', 'eve@example.com'],
  [{ sub: 'service-7', client_id: 'reports' }, 'agent-2', 'reports'],
  [{ sub: 'u-3', azp: 'portal' }, '', 'portal'],
  [{ sub: 'u-4' }, 'agent-3', 'u-4'],
  [undefined, 'agent-4', 'agent-4'],
  [undefined, '', ''],
]

describe('the name of a caller', () => {
  for (const [claims, agent, name] of callers) {
    it(`is ${JSON.stringify(name)} to all who read it, of ${JSON.stringify(claims ?? 'no token')} and the agent "${agent}"`, async () => {
      await using issuer = await TestIssuer.start()
      await using upstream = await startUpstream()
      const { issuer: url, audience, jwksUri } = issuer
      await using rig = await startConsole(noBrowser, {
        targets: { billing: upstream.url },
        authn: { allowUnauthenticated: true, oidc: { issuer: url, audience, jwks_uri: jwksUri } },
        rules: [{ name: 'refunds', tools: ['billing/refund_payment'], then: 'escalate' }],
        admin: { port: 0, tokenRef: 'env:SVC_ADMIN', roles: { reviewer: ['approver'] } },
        security: { side_effects: { approve_high_risk: true } },
      })
      const token = claims && (await issuer.sign({ org: 'acme', email: undefined, ...claims }))
      const from = {
        ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
        ...(agent === '' ? {} : { 'x-agent-ref': agent }),
      }
      const get = async <T>(path: string) => (await ask(rig.origin, path, { headers })).json as T
      expect((await rig.gateway.invoke('/mcp/billing/get_invoice@1.0.0', {}, from)).status).to.equal(200)
      const waits = await rig.gateway.invoke('/mcp/billing/refund_payment@1.0.0', { amount: 240 }, from)
      const { escalation_id: id } = (await waits.json()) as { escalation_id: string }

      const shown = name || 'anonymous'
      const activity = await get<{ routes: { caller: string }[] }>('/api/activity')
      expect(new Set(activity.routes.map(({ caller }) => caller))).to.deep.equal(new Set([shown]))
      const { calls } = await get<{ calls: { kind: string; caller: string }[] }>('/api/calls')
      const rows = calls.filter(({ kind }) => kind === 'call')
      expect(new Set(rows.map((row) => row.caller))).to.deep.equal(new Set([shown]))
      const records = rig.gateway.records().filter(({ server }) => server.startsWith('billing'))
      for (const record of records) expect(callerName(record)).to.equal(`acme: ${shown}`)

      const { escalations: waiting } = await get<{ escalations: object[] }>('/api/escalations')
      const graph = graphOf({ servers: [], calls: activity, waiting } as never)
      expect(graph.callers.map((node) => node.name)).to.deep.equal([shown])
      expect(graph.total).to.include({ sent: 1, waiting: 1 })
      const context = await get<{ caller_calls: { tool: string }[] }>(`/api/escalations/${id}/context`)
      const own = name === '' ? [] : ['refund_payment', 'get_invoice']
      expect(context.caller_calls.map(({ tool }) => tool)).to.deep.equal(own)
    })
  }
})
