import { isSideEffecting, sideEffects, tokens } from '@svc/core'
import type { JsonValue } from '@svc/core/json'
import { securityPlugin } from '@svc/plugin-security'
import { expect } from 'chai'
import fc from 'fast-check'
import { makeCall } from '../../support/call.js'
import { explain, StageRig, send, served } from '../../support/stage-rig.js'
import { run, securityStage } from './rig.js'

interface CallOptions {
  readonly args?: JsonValue
  readonly key?: string | null
  readonly rules?: object
  readonly enforcement?: object
}

async function sendTool(
  tool: string,
  { args = {}, key = null, rules = {}, enforcement = {} }: CallOptions = {},
) {
  const call = makeCall({ tool, args, request: { idempotencyKey: key } })
  const security = { side_effects: { require_idempotency_key: true, ...rules } }
  let isSent = false
  const outcome = await run({ security, enforcement }, call, async () => {
    isSent = true
    return served
  })
  return { call, outcome, isSent, reasons: call.findings.map(({ reason }) => reason) }
}

describe('security: side effects', () => {
  it('without an idempotency key are denied, and nothing is sent', async () => {
    const { outcome, isSent, call } = await sendTool('delete_file')
    expect(isSent).to.equal(false)
    expect(outcome).to.deep.include({
      kind: 'denied',
      code: 'TOOL_NOT_ALLOWED',
      denial: { level: 'gateway', type: 'security', reason: 'missing_idempotency_for_side_effect' },
    })
    expect(call.findings.map(({ detail }) => detail)).to.deep.equal([
      'mcp://files/delete_file@1.0.0 may have side effects, and the call has no idempotency key',
    ])
  })

  it('with an idempotency key are allowed, and so are calls without side effects', async () => {
    expect((await sendTool('delete_file', { key: 'k1' })).reasons).to.deep.equal([])
    expect((await sendTool('read_file')).isSent).to.equal(true)
  })

  it('are also recognized by the argument method', async () => {
    expect((await sendTool('fetch', { args: { method: 'POST' } })).isSent).to.equal(false)
    expect((await sendTool('fetch', { args: { method: 'GET' } })).isSent).to.equal(true)
  })

  it('are only recorded in observe mode, and if deny_on does not name them', async () => {
    for (const enforcement of [{ mode: 'observe' }, { deny_on: ['fs_violation'] }]) {
      const { isSent, reasons } = await sendTool('send_mail', { enforcement })
      expect([isSent, reasons]).to.deep.equal([true, ['missing_idempotency_for_side_effect']])
    }
  })

  it('are denied under the alias idempotency_missing', async () => {
    expect(
      (await sendTool('send_mail', { enforcement: { deny_on: ['idempotency_missing'] } })).isSent,
    ).to.equal(false)
  })

  it('need no key unless it is required', async () => {
    expect(
      (await sendTool('delete_file', { rules: { require_idempotency_key: false } })).reasons,
    ).to.deep.equal([])
    const { call } = await send(securityStage({}), { tool: 'delete_file' })
    expect(call.findings).to.deep.equal([])
  })

  describe('with side_effects.tools', () => {
    it('follow the policy before the name and the method', async () => {
      expect((await sendTool('delete_draft', { rules: { tools: { delete_draft: false } } })).isSent).to.equal(
        true,
      )
      expect((await sendTool('echo', { rules: { tools: { 'files/*': true } } })).isSent).to.equal(false)
      const policy = { tools: { 'files/fetch': false } }
      expect((await sendTool('fetch', { args: { method: 'POST' }, rules: policy })).isSent).to.equal(true)
    })

    it('follow the most specific pattern, and true between equally specific ones', async () => {
      const tools = { '*': true, 'files/*': false, 'files/wipe': true }
      expect((await sendTool('wipe', { rules: { tools } })).isSent).to.equal(false)
      expect((await sendTool('send', { rules: { tools } })).isSent).to.equal(true)
      expect((await sendTool('ab', { rules: { tools: { 'a*': false, '*b': true } } })).isSent).to.equal(false)
    })

    it('follow the name if no pattern matches', async () => {
      expect((await sendTool('send', { rules: { tools: { wipe: true } } })).isSent).to.equal(false)
    })

    it('agree with a naive implementation', async () => {
      const pattern = fc.constantFrom(
        '*',
        'files/*',
        'files/send',
        'send',
        's*',
        '*d',
        'mail/*',
        'send@1.0.0',
      )
      const literals: Record<string, number> = {
        '*': 1,
        'files/*': 7,
        'files/send': 11,
        send: 6,
        's*': 3,
        '*d': 3,
        'send@1.0.0': 11,
      }
      await fc.assert(
        fc.asyncProperty(fc.dictionary(pattern, fc.boolean(), { maxKeys: 4 }), async (tools) => {
          const matching = Object.entries(tools).filter(([name]) => literals[name] !== undefined)
          const most = Math.max(...matching.map(([name]) => literals[name] ?? 0))
          const isYes =
            matching.length === 0 || matching.some(([name, yes]) => yes && literals[name] === most)
          expect((await sendTool('send', { rules: { tools } })).isSent).to.equal(!isYes)
        }),
      )
    })

    it('reject an invalid pattern by its key', () => {
      const { error } = securityPlugin.schema.safeParse({ side_effects: { tools: { 'a@b@c': true } } })
      expect(error?.issues.map(({ path }) => path.join('|'))).to.deep.equal(['side_effects|tools|a@b@c'])
    })
  })

  it('are recognized by later stages with the same rule', async () => {
    const { call } = await sendTool('echo', { key: 'k', rules: { tools: { echo: true } } })
    expect(isSideEffecting(await call.request(), call.get(sideEffects))).to.equal(true)
    expect(isSideEffecting(await call.request())).to.equal(false)
  })

  it('do not exist for prompts and resources', async () => {
    const { call } = await send(securityStage({ side_effects: { require_idempotency_key: true } }), {
      request: { kind: 'prompt', name: 'send', reference: 'mcp://files/prompts/send@1' },
    })
    expect(call.findings).to.deep.equal([])
  })

  it('follow trusted annotations if no pattern matches', async () => {
    const rig = new StageRig()
    const annotations: Readonly<Record<string, boolean>> = {
      'mcp://files/send@1.0.0': false,
      'mcp://files/echo@1.0.0': true,
    }
    rig.bind(tokens.ToolAnnotations, {
      among: () => (tool) => annotations[tool],
      lists: () => () => undefined,
    })
    const knowledgeOf = async (section: object) => {
      const { call } = await send(rig.create(securityPlugin, { side_effects: section }))
      return ['send', 'echo', 'delete'].map((name) =>
        isSideEffecting(
          { kind: 'tool', name, reference: `mcp://files/${name}@1.0.0`, args: {} },
          call.get(sideEffects),
        ),
      )
    }
    expect(await knowledgeOf({ trust_annotations: true })).to.deep.equal([false, true, true])
    expect(await knowledgeOf({ trust_annotations: false })).to.deep.equal([true, false, true])
    expect(await knowledgeOf({ trust_annotations: true, tools: { send: true } })).to.deep.equal([
      true,
      true,
      true,
    ])
  })

  it('need a key for a tool of which nothing says whether it has any, if the policy counts it so', async () => {
    for (const [unknown, isSent] of [
      [undefined, true],
      ['harmless', true],
      ['effect', false],
    ] as const) {
      const rules = unknown === undefined ? {} : { unknown }
      expect((await sendTool('format_disk', { rules })).isSent, unknown).to.equal(isSent)
      expect((await sendTool('read_disk', { rules })).isSent, unknown).to.equal(true)
    }
  })

  it('are explained', async () => {
    const explained = async (tool: string, section: object) =>
      (await explain(securityStage({ side_effects: section }), { tool })).lines.filter((line) =>
        line.startsWith('side_effects'),
      )
    expect(await explained('send', { require_idempotency_key: true })).to.deep.equal([
      'side_effects: the call may have side effects, according to its name and its argument "method"; then a key is required',
    ])
    expect(await explained('wipe', {})).to.deep.equal([
      'side_effects: it is unknown whether the call has side effects, as neither the policy, an annotation nor its name says so; by side_effects.unknown it counts as harmless; no key is required',
    ])
    expect(await explained('send', { tools: { send: false } })).to.deep.equal([
      'side_effects: the call has no side effects, according to side_effects.tools; no key is required',
    ])
  })
})
