// Searches everything that a gateway writes for the names of its callers.
import { readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { inspect } from 'node:util'
import type { QuotaAdapter } from '@svc/core'
import { expect } from 'chai'
import type { GatewaySettings } from 'svc-sdk'
import { recordingTo, startTestGateway } from '../../support/gateway.js'
import { TestIssuer } from '../../support/issuer.js'
import { ofEachTest } from '../../support/parts.js'
import { temporaryDir } from '../../support/temporary-dir.js'
import { startUpstream } from '../../support/upstream.js'

function filesUnder(directory: string): string {
  return readdirSync(directory, { recursive: true, encoding: 'utf8' })
    .map((name) => join(directory, name))
    .map((path) => `${path}\n${statSync(path).isFile() ? readFileSync(path, 'utf8') : ''}`)
    .join('\n')
}

describe('privacy: in a gateway', () => {
  const home = temporaryDir()
  const issuer = ofEachTest(() => TestIssuer.start())
  const upstream = ofEachTest(() => startUpstream())

  const options = (more: Partial<GatewaySettings> = {}): GatewaySettings => ({
    targets: { files: upstream.url },
    sec0Dir: home.path,
    privacy: { redact_identities: true },
    authn: { oidc: issuer.oidc },
    entitlements: {
      default_plan: 'free',
      plans: { free: {} },
      tenants: {
        acme: { plan: 'free', allowlist: ['read'], users: { 'ada@example.com': { denylist: ['drop'] } } },
      },
    },
    ...more,
  })

  async function headers(more: Record<string, string> = {}): Promise<Record<string, string>> {
    const state = { variables: { mailTo: 'bob@example.com', count: 1 }, metadata: { owner: 'subject-17' } }
    return {
      authorization: `Bearer ${await issuer.sign({ sub: 'subject-17' })}`,
      'x-agent-state': Buffer.from(JSON.stringify(state)).toString('base64url'),
      'x-node-id': 'laptop of ada@example.com',
      'x-agent-ref': 'run-1',
      'idempotency-key': 'ada@example.com-1',
      ...more,
    }
  }

  const people = /ada@example|subject-17|bob@example/i

  it('has no names in the records of calls that could not be parsed, or have an unknown method', async () => {
    await using gateway = await startTestGateway(options({ entitlements: 'open' }))
    await gateway.invoke('/mcp/files/mail-ada%40example.com@1', 'no JSON', await headers())
    await gateway.invoke('/mcp/ada%40example.com/read@1', 'no JSON', await headers())
    const call = { jsonrpc: '2.0', id: 1, method: 'subject-17/ada@example.com', params: {} }
    const message = { accept: 'application/json, text/event-stream' }
    await gateway.invoke('/mcp/files', call, await headers(message))
    await gateway.invoke('/mcp/files', { ...call, jsonrpc: '1.0' }, await headers(message))
    const bad = await headers({ ...message, 'mcp-method': 'ada@example.com', 'mcp-name': 'ada@example.com' })
    await gateway.invoke('/mcp/files', 'no JSON', bad)
    const records = gateway.records()
    expect(records).to.have.length(5)
    expect(JSON.stringify(records)).to.not.match(people)
  })

  it('has no names in its records, and one pseudonym per person', async () => {
    await using gateway = await startTestGateway(options())
    expect((await gateway.invoke('/mcp/files/read@1', {}, await headers())).status).to.equal(200)
    expect((await gateway.invoke('/mcp/files/drop@1', {}, await headers())).status).to.equal(403)
    expect(
      (await gateway.invoke('/mcp/files/read@1', {}, await headers({ 'x-tenant': 'other' }))).status,
    ).to.equal(401)
    const records = gateway.records()
    expect(records).to.have.length(3)
    expect(JSON.stringify(records)).to.not.match(people)
    expect(filesUnder(gateway.dir)).to.not.match(people)
    const users = records.map(({ principal }) => principal?.user)
    expect(new Set(users).size).to.equal(1)
    expect(users[0]).to.match(/^hmac-sha256:[0-9a-f]{64}$/)
    const [served, refused] = records
    expect(served).to.include({ tenant: 'acme', tool: 'read@1', status: 'ok', agentRef: 'run-1' })
    expect(served?.agentVariables).to.include({ count: 1 })
    expect(served?.nodeId).to.equal(`laptop of ${users[0]}`)
    expect(refused?.findings?.[0]?.detail).to.equal('the denylist of the user denies mcp://files/drop@1')
    // Requests to the upstream are not redacted.
    expect(upstream.calls[0]?.headers['x-node-id']).to.equal('laptop of ada@example.com')
  })

  it('has no names in its log when an error contains the name of the caller', async () => {
    const quotas: QuotaAdapter = {
      incrDaily: () => Promise.reject(new Error('no connection for ada@example.com')),
      takeToken: (_tenant, tool) => Promise.reject(new Error(`WRONGTYPE at ${tool} of subject-17`)),
    }
    const entitlements = {
      default_plan: 'free',
      plans: { free: { calls_per_day: 5, rate_per_sec: 5 } },
      tenants: { acme: { plan: 'free', allowlist: ['*'] } },
    }
    await using gateway = await startTestGateway(options({ quotas: { adapter: quotas }, entitlements }))
    expect((await gateway.invoke('/mcp/files/read@1', {}, await headers())).status).to.equal(503)
    const ofCall = gateway.log.lines.filter(({ fields }) => 'trace_id' in fields)
    const logged = inspect(ofCall, { depth: Number.POSITIVE_INFINITY, showHidden: true })
    expect(logged).to.include('WRONGTYPE').and.include('hmac-sha256:').and.not.match(people)
    expect(JSON.stringify(gateway.records())).to.not.match(people)
  })

  it('records identities if the policy does not redact them', async () => {
    await using gateway = await startTestGateway(options({ privacy: { redact_identities: false } }))
    await gateway.invoke('/mcp/files/read@1', {}, await headers())
    expect(gateway.records()[0]?.principal).to.deep.include({
      user: 'ada@example.com',
      user_id: 'subject-17',
    })
  })

  it('omits agent state when the log cannot be written before the privacy stage has run', async () => {
    const records: object[] = []
    await using gateway = await startTestGateway(
      options({
        ...recordingTo({
          append: async (record: object) => void records.push(record),
          status: () => ({ writable: false }),
        }),
      }),
    )
    expect((await gateway.invoke('/mcp/files/read@1', {}, await headers())).status).to.equal(503)
    expect(records).to.have.length(1)
    expect(records[0]).to.deep.include({
      error: 'AUDIT_UNAVAILABLE',
      agentVariables: null,
      agentMetadata: null,
      principal: {},
    })
  })
})
