// A replacement of the section `security` that uses its parts, from the public exports only.
import { expect } from 'chai'
import { checkContent, contentRules, definePlugin, securityPlugin, securitySchema } from 'svc-sdk/core'
import { z } from 'zod'
import { startTestGateway } from '../support/gateway.js'
import { startUpstream } from '../support/upstream.js'

/** The replacement that docs/writing-a-stage.md shows. */
const around = definePlugin({
  ...securityPlugin,
  version: '2.0.0',
  schema: securitySchema.extend({ blocked_words: z.array(z.string()).default([]) }),
  create({ blocked_words, ...config }, context) {
    const built = securityPlugin.create(config, context)
    return {
      effects: built.effects,
      async handle(call, next) {
        const { canonicalArgs } = await call.request()
        for (const word of blocked_words.filter((one) => canonicalArgs.includes(one)))
          call.addFinding({
            reason: 'blocked_word',
            stage: 'security',
            detail: `the arguments have "${word}"`,
          })
        return built.handle(call, next)
      },
    }
  },
})

/** A custom stage that uses the rules on arguments of the built-in one. */
const rulesOnly = definePlugin({
  name: 'security',
  version: '3.0.0',
  core: '^1.0.0',
  schema: securitySchema,
  create(config) {
    const rules = contentRules(config)
    return {
      async handle(call, next) {
        for (const finding of checkContent(await call.request(), rules)) call.addFinding(finding)
        return next()
      },
    }
  },
})

const security = { egress_allowlist: ['good.example'] }
const evil = { url: 'https://evil.example/' }

describe('a plugin that replaces the section security', () => {
  it('adds a rule to the built-in stage, whose rules, versions and facts stay', async () => {
    await using upstream = await startUpstream()
    await using gateway = await startTestGateway({
      targets: { files: upstream.url },
      plugins: [around],
      policyObject: {
        security: {
          ...security,
          allow_versions: { files: ['1.*'] },
          side_effects: { approve_high_risk: true, human_escalation: { approval_strategy: 'auto_allow' } },
          blocked_words: ['xyzzy'],
        },
        enforcement: { escalate_on: ['egress_violation'] },
      },
    })
    const reason = async (path: string, args: object) => {
      const response = await gateway.invoke(path, args)
      return ((await response.json()) as { denial_reason?: string }).denial_reason ?? response.status
    }
    expect(await reason('/mcp/files/read@1.0.0', {})).to.equal(200)
    expect(await reason('/mcp/files/read@1.0.0', { a: 'xyzzy' })).to.equal('blocked_word')
    expect(await reason('/mcp/files/read@2.0.0', {})).to.equal('version_unpinned')
    expect(await reason('/mcp/files/read@1.0.0', evil)).to.equal(200)
    expect(gateway.records().some(({ findings }) => findings?.[0]?.effect === 'escalate')).to.equal(true)
  })

  it('uses the rules on arguments in a stage of its own', async () => {
    await using upstream = await startUpstream()
    await using gateway = await startTestGateway({
      targets: { files: upstream.url },
      plugins: [rulesOnly],
      security,
    })
    expect((await gateway.invoke('/mcp/files/read@1.0.0', { url: 'https://good.example/' })).status).to.equal(
      200,
    )
    const denied = await gateway.invoke('/mcp/files/read@1.0.0', evil)
    expect(await denied.json()).to.include({ denial_reason: 'egress_violation' })
  })
})
