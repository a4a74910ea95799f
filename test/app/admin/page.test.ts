import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect } from 'chai'
import { startTestGateway } from '../../support/gateway.js'
import { TestIssuer } from '../../support/issuer.js'
import { allMetrics } from '../../support/metric-reference.js'
import { adminToken, ask } from './rig.js'

const page = readFileSync(new URL('../../../../docs/admin.md', import.meta.url), 'utf8')

describe('docs/admin.md', () => {
  it('has a policy with which a gateway starts', async () => {
    await using issuer = await TestIssuer.start()
    await using gateway = await startTestGateway((home) => {
      mkdirSync(join(home, 'keys'))
      writeFileSync(join(home, 'keys', 'admin-token'), adminToken, { mode: 0o600 })
      const [, policy = ''] = /```yaml\n(tenant:[\s\S]*?)```/.exec(page) ?? []
      return {
        policyFile: join(home, 'policy.yaml'),
        policyYaml: policy
          .replace(/port: \d+/g, 'port: 0')
          .replace('https://id.example.com/jwks', issuer.jwksUri)
          .replace('https://id.example.com/', issuer.issuer)
          .replace('1.0.0', `1.0.0\n  dir: ${home}/audit`)
          .replace('file://audit.key', `"file://${home}/key"`),
      }
    })
    const { adminUrl = '' } = await gateway.handle.ready()
    const headers = { authorization: `Bearer ${adminToken}` }
    expect((await ask(adminUrl, '/metrics', { headers })).status).to.equal(200)
    expect((await ask(adminUrl, '/metrics', {})).status).to.equal(401)
  })

  it('names only metrics that exist', () => {
    const named = [...page.matchAll(/svc_[a-z_]+/g)].map(([name]) => name.replace(/_bucket$/, ''))
    expect(named).not.to.deep.equal([])
    expect(allMetrics.map(({ name }) => name)).to.include.members(named)
  })
})
