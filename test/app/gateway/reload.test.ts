// What a reload leaves behind: the records and notices of policies in force and refused, and the texts of those in force.
import { readdirSync } from 'node:fs'
import { sha256Hex } from '@svc/core/json'
import { readKeptPolicy } from '@svc/plugin-audit/tools'
import { expect } from 'chai'
import { startTestGateway } from '../../support/gateway.js'
import { rejectionOf } from '../../support/rejection.js'
import { startUpstream } from '../../support/upstream.js'
import { startWebhook } from '../../support/webhook.js'

const policyOf = (allowlist: string) => `# the policy of the test
vars: { max: 10 }
entitlements:
  default_plan: free
  plans: { free: {} }
  tenants: { acme: { plan: free, allowlist: [${allowlist}] } }
`

describe('a reload', () => {
  it('is recorded with both hashes, who asked for it, and who gains and loses', async () => {
    await using hook = await startWebhook()
    const [old, now] = [policyOf('files/read'), policyOf('files/read, files/write')]
    await using gateway = await startTestGateway({
      targets: { files: 'http://127.0.0.1:1' },
      notices: [{ url: hook.url }],
      policyYaml: old,
    })
    await gateway.handle.reload(now)
    const record = gateway.records().at(-1)
    const event = {
      policy_sha256: sha256Hex(now),
      previous_sha256: sha256Hex(old),
      by: 'code',
      gains: true,
      changes: [
        '+ acme: every caller denied by tool_not_in_allowlist -> allowed, as mcp://files/write@unversioned',
      ],
    }
    expect(record).to.deep.include({
      tool: 'policy/reload@1',
      status: 'ok',
      policy_sha256: sha256Hex(now),
      event,
    })
    await hook.until(1)
    expect(JSON.parse(hook.deliveries[0]?.body ?? '')).to.deep.include({
      type: 'policy.reloaded',
      data: event,
    })
  })

  it('of a large policy compares many calls while the gateway serves', async () => {
    await using upstream = await startUpstream()
    const large = (tool: string) =>
      JSON.stringify({
        entitlements: {
          default_plan: 'free',
          plans: { free: {} },
          tenants: Object.fromEntries(
            Array.from({ length: 60 }, (_, index) => [
              index === 0 ? 'acme' : `tenant-${index}`,
              { plan: 'free', allowlist: ['files/read', `files/tool-${index}`, tool] },
            ]),
          ),
        },
      })
    await using gateway = await startTestGateway({
      targets: { files: upstream.url },
      policyYaml: large('files/a'),
    })
    let isReloaded = false
    const reloading = gateway.handle.reload(large('files/b')).then(() => {
      isReloaded = true
    })
    let served = 0
    while (!isReloaded) {
      expect((await gateway.invoke('/mcp/files/read@1')).status).to.equal(200)
      if (!isReloaded) served++
    }
    await reloading
    expect(served).to.be.above(3)
    const record = gateway.records().findLast(({ tool }) => tool === 'policy/reload@1')
    const { gains, changes, more } = record?.event ?? {}
    expect({ gains, more }).to.deep.equal({ gains: true, more: 100 })
    expect(changes).to.include(
      '+ acme: every caller denied by tool_not_in_allowlist -> allowed, as mcp://files/b@unversioned',
    )
  })

  it('that is refused changes nothing, and is recorded', async () => {
    await using upstream = await startUpstream()
    const old = policyOf('files/read')
    await using gateway = await startTestGateway({ targets: { files: upstream.url }, policyYaml: old })
    expect((await rejectionOf(gateway.handle.reload('quota: {}'))).message).to.contain('quota')
    expect(gateway.records().at(-1)).to.deep.include({
      tool: 'policy/reload@1',
      status: 'error',
      error: 'BAD_REQUEST',
      risk_tags: ['policy_refused'],
      policy_sha256: sha256Hex(old),
      event: { by: 'code' },
    })
    expect((await gateway.invoke('/mcp/files/read@1')).status).to.equal(200)
    expect((await gateway.invoke('/mcp/files/write@1')).status).to.equal(403)
  })

  it('keeps every policy that was in force beside the log, and none that was refused', async () => {
    const texts = [policyOf('a/b'), policyOf('a/c')]
    await using gateway = await startTestGateway({ targets: {}, policyYaml: texts[0] ?? '' })
    await gateway.handle.reload(texts[1] ?? '')
    await rejectionOf(gateway.handle.reload('quota: {}'))
    for (const text of texts) expect(readKeptPolicy(gateway.dir, sha256Hex(text))).to.equal(text)
    expect(readdirSync(`${gateway.dir}/policies`)).to.have.length(2)
  })

  it('does not keep a policy with a secret in its text, and warns of it', async () => {
    await using gateway = await startTestGateway({ targets: {}, policyYaml: 'vars: { api_key: abc }\n' })
    expect(readdirSync(gateway.dir)).to.not.include('policies')
    expect(gateway.log.lines.map(({ message }) => message).join()).to.contain(
      'contains a secret: vars.api_key (line 1)',
    )
  })
})
