import { join } from 'node:path'
import { readProof, readVerifierKeys, webChecker } from '@svc/plugin-audit/browser'
import { checkEvidence, readKeys } from '@svc/plugin-audit/tools'
import { Ajv2020 } from 'ajv/dist/2020.js'
import { expect } from 'chai'
import { auditIn, startTestGateway } from '../../support/gateway.js'
import { TestIssuer } from '../../support/issuer.js'
import { ofEachTest } from '../../support/parts.js'
import { adminToken, ask, type HttpResponse, trusting } from '../admin/rig.js'

const roles = { viewer: ['watch'], reviewer: ['approver'], auditor: ['audit'] }

interface Listed {
  readonly records: readonly {
    leaf: number | null
    record: { tenant: string; tool: string; trace_id: string }
  }[]
  readonly next: number | null
}

describe('the admin API on the audit log', () => {
  let get: (path: string, bearer: string) => Promise<HttpResponse>
  let as: Record<'acme' | 'beta' | 'auditor' | 'viewer' | 'nobody', string>

  const issuer = ofEachTest(() => TestIssuer.start())
  const gateway = ofEachTest(() =>
    startTestGateway((home) => ({
      ...trusting(issuer),
      targets: { billing: 'http://127.0.0.1:1' },
      admin: { port: 0, tokenRef: 'env:SVC_ADMIN', roles },
      env: { SVC_ADMIN: adminToken },
      audit: { ...auditIn(home), checkpointIntervalMs: 100 },
    })),
  )
  beforeEach(async () => {
    const { adminUrl = '' } = await gateway.handle.ready()
    get = (path, bearer) => ask(adminUrl, path, { headers: { authorization: `Bearer ${bearer}` } })
    const token = (org: string, ...given: string[]) => issuer.sign({ org, roles: given })
    as = {
      acme: await token('acme', 'approver'),
      beta: await token('beta', 'approver'),
      auditor: await token('acme', 'audit'),
      viewer: await token('acme', 'watch'),
      nobody: await token('acme'),
    }
    for (const bearer of [as.acme, as.beta, as.acme, as.beta]) {
      await gateway.invoke('/mcp/billing/refund@1.0.0', {}, { authorization: `Bearer ${bearer}` })
    }
  })

  const list = async (path: string, bearer: string) =>
    (await get(`/api/records${path}`, bearer)).json as unknown as Listed

  /** The leaves of the calls' records, once a checkpoint covers them. */
  async function sealed(): Promise<number[]> {
    for (;;) {
      const { records } = await list('?tool=refund', as.auditor)
      const leaves = records.flatMap(({ leaf }) => leaf ?? [])
      const { head } = (await get('/api/log', as.auditor)).json as { head?: { size: number } | null }
      if (leaves.length === 4 && Math.max(...leaves) < (head?.size ?? 0)) return leaves
    }
  }

  it('shows reviewers the records of their tenant, and auditors all', async () => {
    const tenants = async (bearer: string, path = '?tool=refund') =>
      (await list(path, bearer)).records.map(({ record }) => record.tenant)
    expect(await tenants(as.acme)).to.deep.equal(['acme', 'acme'])
    expect(await tenants(as.beta, '?tool=refund&tenant=beta')).to.deep.equal(['beta', 'beta'])
    expect((await tenants(as.auditor)).sort()).to.deep.equal(['acme', 'acme', 'beta', 'beta'])
    expect(await tenants(as.auditor, '?tool=refund&tenant=beta&limit=1')).to.deep.equal(['beta'])
    for (const [path, bearer] of [
      ['/api/records?tenant=beta', as.acme],
      ['/api/records', as.viewer],
      ['/api/records', as.nobody],
      ['/api/evidence?tenant=beta', as.acme],
      ['/api/evidence/estimate', as.viewer],
      ['/api/log', as.nobody],
    ] as const) {
      expect((await get(path, bearer)).status, path).to.equal(403)
    }
    for (const query of [
      'limit=0',
      'limit=9999',
      'before=x',
      'since=yesterday',
      'what=1',
      'decision=maybe',
    ]) {
      expect((await get(`/api/records?${query}`, as.auditor)).status, query).to.equal(400)
    }
  })

  it('proves a record by its leaf, to those who may read it', async () => {
    const leaves = await sealed()
    const { json: log } = await get('/api/log', as.viewer)
    expect(log).to.have.nested.property('head.size').that.is.above(4)
    expect(log).to.have.nested.property('writing.writable', true)
    for (const leaf of leaves) {
      const { json: shown } = await get(`/api/records/${leaf}`, as.auditor)
      const own = (shown['record'] as { tenant: string }).tenant === 'acme'
      expect((await get(`/api/records/${leaf}`, as.acme)).status).to.equal(own ? 200 : 404)
      expect((await get(`/api/records/${leaf}/proof`, as.acme)).status).to.equal(own ? 200 : 404)
      const { json } = await get(`/api/records/${leaf}/proof`, as.auditor)
      const given = readVerifierKeys((json['keys'] as string[]).join('\n'))
      const checked = await webChecker(given).check(readProof(String(json['proof']))!)
      expect(checked.state).to.equal('ok')
    }
    const { json: since } = await get('/api/log?older=1', as.viewer)
    expect(since['consistency']).to.be.an('array').that.is.not.empty
    expect(since['seal_interval_ms']).to.equal(100)
    expect((await get('/api/log?older=-1', as.viewer)).status).to.equal(400)
    for (const leaf of ['0', '999999', 'x', '-1']) {
      expect((await get(`/api/records/${leaf}`, as.auditor)).status, leaf).to.equal(404)
    }
    const { json: api } = await get('/api/openapi.json', adminToken)
    type Responses = Record<string, { content: Record<string, { schema: object }> }>
    const { paths } = api as unknown as { paths: Record<string, { get: { responses: Responses } }> }
    const ajv = new Ajv2020({ strict: false, validateFormats: false })
    for (const [path, id] of [
      ['/api/log', ''],
      ['/api/records', ''],
      ['/api/records/{id}', leaves[0]],
      ['/api/records/{id}/proof', leaves[0]],
      ['/api/evidence/estimate', ''],
    ] as const) {
      const { text } = await get(path.replace('{id}', String(id)), as.auditor)
      const { content } = paths[path]!.get.responses['200']!
      expect(
        ajv.validate(content['application/json']!.schema, JSON.parse(text)),
        `${path}: ${ajv.errorsText()}`,
      ).to.equal(true)
    }
  })

  it("makes a file of evidence of a reviewer's tenant, which a browser saves and does not run here", async () => {
    await sealed()
    const estimate = await get('/api/evidence/estimate?tool=refund', as.acme)
    expect(estimate.json).to.include({ records: 2, not_sealed: 0, more: 0 })
    const { status, headers, text } = await get('/api/evidence?tool=refund', as.acme)
    expect(status).to.equal(200)
    expect(headers.get('content-disposition')).to.match(/^attachment; filename="evidence-[\dT-]+\.html"$/)
    expect(headers.get('content-security-policy')).to.match(/^sandbox; /)
    const keys = join(gateway.dir, 'public-keys')
    const judged = await checkEvidence(Buffer.from(text), await readKeys(keys))
    expect(judged).to.deep.include({ valid: true, records: 2, filter: { tenant: 'acme', tool: 'refund' } })
    expect((await get('/api/evidence?tool=nothing', as.acme)).status).to.equal(404)
    const read = gateway.records().filter(({ tool }) => tool === 'admin/make_evidence@1')
    expect(read.map(({ principal }) => principal?.user_id ?? principal?.user)).to.have.length.above(0)
    expect((await get('/api/records', adminToken)).status).to.equal(200)
  })
})
