import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { sha256Hex } from '@svc/core/json'
import { expect } from 'chai'
import { startTestGateway } from '../../support/gateway.js'
import { TestIssuer } from '../../support/issuer.js'
import { ofEachTest } from '../../support/parts.js'
import { startUpstream } from '../../support/upstream.js'
import { adminToken, ask, askUnfinished, trusting } from './rig.js'

describe('the reload of a policy over the admin listener', () => {
  let file = ''

  const issuer = ofEachTest(() => TestIssuer.start())

  const start = (targets = {}) =>
    startTestGateway((home) => {
      file = join(home, 'policy.yaml')
      writeFileSync(file, 'vars: { max: 1 }\n')
      return {
        targets,
        policyFile: file,
        ...trusting(issuer),
        admin: { port: 0, tokenRef: 'env:SVC_ADMIN', roles: { operator: ['ops'], auditor: ['audit'] } },
        env: { SVC_ADMIN: adminToken },
      }
    })

  const reload = async (adminUrl: string, bearer: string, body = '{}') =>
    ask(adminUrl, '/api/policy/reload', {
      method: 'POST',
      headers: { authorization: `Bearer ${bearer}`, 'content-type': 'application/json' },
      body,
    })

  it('loads the file, responds with both hashes and the differences, and records the operator', async () => {
    await using gateway = await start()
    const { adminUrl = '' } = await gateway.handle.ready()
    writeFileSync(file, 'vars: { max: 2 }\n')
    const { status, json } = await reload(adminUrl, await issuer.sign({ roles: ['ops'] }))
    expect(status).to.equal(200)
    expect(json).to.deep.equal({
      policy_sha256: sha256Hex('vars: { max: 2 }\n'),
      previous_sha256: sha256Hex('vars: { max: 1 }\n'),
      by: 'admin API',
      gains: null,
      changes: ['? vars changed'],
    })
    expect(gateway.records().at(-1)).to.deep.include({ tool: 'policy/reload@1', event: json })
    expect(gateway.records().at(-1)?.principal).to.include({ user: 'ada@example.com' })
  })

  it('compares on the tools that the console has listed', async () => {
    await using upstream = await startUpstream()
    await using gateway = await start({ files: upstream.url })
    const { adminUrl = '' } = await gateway.handle.ready()
    const authorization = `Bearer ${await issuer.sign({ roles: ['ops'] })}`
    await gateway.invoke('/mcp/files/deep_clean@1', {}, { authorization })
    expect((await ask(adminUrl, '/api/policy', { headers: { authorization } })).status).to.equal(200)
    const rule = "{ name: deep, when: tool.name == 'deep_clean', then: deny }"
    writeFileSync(file, `vars: { max: 1 }\nrules: [${rule}]\n`)
    const { json } = await reload(adminUrl, await issuer.sign({ roles: ['ops'] }))
    expect(json['gains']).to.equal(false)
    expect(json['changes']).to.deep.include(
      '- acme: every caller allowed -> denied by rule:deep, as mcp://files/deep_clean@1',
    )
  })

  it('responds with the mistakes of a policy that is refused, and the old one stays', async () => {
    await using gateway = await start()
    const { adminUrl = '' } = await gateway.handle.ready()
    for (const text of ['quota: {}\n', 'vars: [']) {
      writeFileSync(file, text)
      const { status, json } = await reload(adminUrl, adminToken)
      expect(status).to.equal(400)
      expect(json).to.include({ error: 'BAD_REQUEST' })
      expect(json['message']).to.match(
        /^The policy is refused, and the one in force stays: .*policy\.yaml:1:/,
      )
    }
    expect(gateway.records().at(-1)).to.include({ policy_sha256: sha256Hex('vars: { max: 1 }\n') })
  })

  it('counts for a request that began before it, and does not wait for the end of its body', async () => {
    await using gateway = await start()
    const { adminUrl = '' } = await gateway.handle.ready()
    const authorization = `Bearer ${await issuer.sign({ roles: ['audit'] })}`
    const late = await askUnfinished(adminUrl, '/api/policy/reload', { authorization }, '{}')
    writeFileSync(file, 'vars: { max: 2 }\n')
    expect((await reload(adminUrl, adminToken)).status).to.equal(200)
    expect((await late.finish()).status).to.equal(403)
    expect(gateway.records().at(-1)).to.include({
      error: 'TOOL_NOT_ALLOWED',
      policy_sha256: sha256Hex('vars: { max: 2 }\n'),
    })
  })

  for (const [who, roles, body, status] of [
    ['an auditor', ['audit'], '{}', 403],
    ['a user without a role', [], '{}', 403],
    ['an operator who sends a policy', ['ops'], '{"policy":"tenant: evil"}', 400],
  ] as const)
    it(`is refused to ${who}`, async () => {
      await using gateway = await start()
      const { adminUrl = '' } = await gateway.handle.ready()
      writeFileSync(file, 'vars: { max: 2 }\n')
      expect((await reload(adminUrl, await issuer.sign({ roles: [...roles] }), body)).status).to.equal(status)
      const hashes = new Set(gateway.records().map((record) => record.policy_sha256))
      expect([...hashes]).to.deep.equal(status === 403 ? [sha256Hex('vars: { max: 1 }\n')] : [])
    })
})
