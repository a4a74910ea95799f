import {
  bind,
  type DecisionEvaluator,
  denied,
  type EvaluationRequest,
  identity,
  redactor,
  tokens,
} from '@svc/core'
import { sha256Hex } from '@svc/core/json'
import { startEvaluator } from '@svc/example-runtime-evaluator/evaluator'
import { runtimePlugin } from '@svc/plugin-runtime'
import { expect } from 'chai'
import { createStage, fakeContext } from 'svc-sdk/testing'
import { makeCall } from '../../support/call.js'
import { decide, nothingAllowed, startRig } from './rig.js'

describe('a remote runtime', () => {
  it('is asked once for a call, in the protocol of decisions §5, and lets it pass', async () => {
    await using rig = await startRig({ options: nothingAllowed })
    const response = await rig.call({ a: 1 }, { 'x-node-id': 'node-7', 'x-agent-ref': 'run-9' })
    expect(await response.json()).to.deep.equal({ echoed: { a: 1 } })
    const [asked, ...more] = rig.asked
    expect(more).to.deep.equal([])
    const { requestId, ...request } = JSON.parse(asked?.body ?? '') as { requestId: string }
    const record = rig.lastRecord()
    expect(requestId).to.equal(`${record.trace_id}-${record.span_id}`)
    expect(request).to.deep.equal({
      protocolVersion: '2026-02-01',
      context: {
        integrationSurface: 'svc-sdk',
        executionLayer: 'gateway',
        tenant: 'acme',
        server: 'files',
        tool: 'echo@1.0.0',
        nodeId: 'node-7',
        runId: 'run-9',
      },
      enforcement: {
        mode: 'enforce',
        strategy: 'deny_on_match',
        denyOn: ['tool_not_in_allowlist'],
      },
      input: {
        reasons: ['tool_not_in_allowlist'],
        riskTags: ['tool_not_in_allowlist'],
        attributes: {
          protocol: 'invoke',
          kind: 'tool',
          reference: 'mcp://files/echo@1.0.0',
          authenticated: false,
          roles: [],
          sideEffecting: false,
          hasIdempotencyKey: false,
          findings: [
            {
              reason: 'tool_not_in_allowlist',
              stage: 'entitlements',
              level: 'tenant',
              detail: 'no allowlist of tenant "acme" allows mcp://files/echo@1.0.0',
            },
          ],
          inputSha256: sha256Hex('{"a":1}'),
        },
      },
    })
  })

  it('is told the deny_on of the policy with its aliases, and the arguments where the policy says so', async () => {
    await using rig = await startRig({
      remote: { includeArguments: true },
      options: {
        enforcement: { mode: 'observe', deny_on: ['idempotency_missing', 'tool_not_in_allowlist'] },
      },
    })
    await rig.call({ secret: 'plans' })
    const { enforcement, input } = JSON.parse(rig.asked[0]?.body ?? '') as {
      enforcement: object
      input: { attributes: object }
    }
    expect(enforcement).to.deep.equal({
      mode: 'observe',
      strategy: 'deny_on_match',
      denyOn: ['missing_idempotency_for_side_effect', 'tool_not_in_allowlist', 'tool_in_denylist'],
    })
    expect(input.attributes).to.have.property('arguments').that.deep.equals({ secret: 'plans' })
  })

  it('overrules deny_on when it allows, and the record reports what was found', async () => {
    await using rig = await startRig({ options: nothingAllowed })
    expect((await rig.call()).status).to.equal(200)
    expect(rig.lastRecord()).to.deep.include({ status: 'ok', risk_tags: ['tool_not_in_allowlist'] })
    expect(rig.lastRecord().policy).to.include({ decision: 'allow' })
    expect(rig.lastRecord().findings?.map(({ reason, effect }) => [reason, effect])).to.deep.equal([
      ['tool_not_in_allowlist', 'reported'],
    ])
  })

  it('has no say over the time that its own evaluation takes', async () => {
    await using rig = await startRig({
      // The time is up before the verdict is there.
      runtime: (response) => void setTimeout(() => decide(response, { action: 'allow' }), 60),
      options: { security: { limits: { max_duration_ms: 20 } } },
    })
    const response = await rig.call()
    expect(response.status).to.equal(504)
    expect(await response.json()).to.include({ error: 'DURATION_EXCEEDED', sent: false })
    expect(rig.served).to.deep.equal([])
    expect(rig.lastRecord().findings?.map(({ reason, effect }) => [reason, effect])).to.deep.equal([
      ['duration_too_long', 'deny'],
    ])
  })

  it('has no say in observe mode over what the record says of findings', async () => {
    await using rig = await startRig({
      runtime: (response) =>
        decide(response, {
          action: 'allow',
          obligations: [{ type: 'redact_output', params: { paths: ['$.a'] } }],
        }),
      options: { ...nothingAllowed, enforcement: { mode: 'observe' } },
    })
    expect((await rig.call()).status).to.equal(200)
    expect(rig.lastRecord().findings?.map(({ reason, effect }) => [reason, effect])).to.deep.equal([
      ['tool_not_in_allowlist', 'would_deny'],
      ['output_redacted', 'reported'],
    ])
  })

  for (const [action, reason] of [
    ['deny', 'runtime_denied'],
    ['clarify', 'runtime_clarify'],
    ['escalate', 'runtime_escalated'],
  ] as const) {
    it(`stops a call that nothing was found against, with ${reason}: ${action}`, async () => {
      await using rig = await startRig({
        runtime: (response) => decide(response, { action, reason: 'why not', reasons: ['because'] }),
      })
      const response = await rig.call()
      expect(response.status).to.equal(403)
      expect(await response.json()).to.include({
        error: 'TOOL_NOT_ALLOWED',
        denial_type: 'runtime',
        denial_reason: reason,
        sent: false,
        message: `Denied: ${reason} (runtime, gateway): why not (because).`,
      })
      expect(rig.served).to.deep.equal([])
      expect(rig.lastRecord()).to.deep.include({ error: 'TOOL_NOT_ALLOWED', risk_tags: [reason] })
      expect(rig.lastRecord().policy).to.include({ decision: 'deny' })
    })

    it(`is only recorded in observe mode: ${action}`, async () => {
      await using rig = await startRig({
        runtime: (response) => decide(response, { action }),
        options: { enforcement: { mode: 'observe' } },
      })
      expect((await rig.call()).status).to.equal(200)
      expect(rig.lastRecord().policy).to.include({ decision: 'allow' })
      expect(rig.lastRecord().findings?.map((finding) => [finding.reason, finding.effect])).to.deep.equal([
        [reason, 'would_deny'],
      ])
    })
  }

  it('leaves alone what enforcement does not judge: a limit refuses all the same', async () => {
    await using rig = await startRig({
      options: {
        entitlements: {
          default_plan: 'p',
          plans: { p: { calls_per_day: 1 } },
          tenants: { acme: { plan: 'p', allowlist: ['*'] } },
        },
      },
    })
    await rig.call()
    expect((await rig.call()).status).to.equal(429)
  })

  it('is not asked for lists, and leaves them to the policy', async () => {
    await using rig = await startRig({
      tool: (call, response) => {
        const { id, method } = JSON.parse(call.body) as { id: number; method: string }
        const info = {
          serverInfo: { name: 's', version: '1.0.0' },
          protocolVersion: '2025-11-25',
          capabilities: {},
        }
        const result = method === 'initialize' ? info : { tools: [{ name: 'echo', inputSchema: {} }] }
        response.setHeader('content-type', 'application/json')
        response.end(JSON.stringify({ jsonrpc: '2.0', id, result }))
      },
    })
    const listed = await rig.gateway.invoke('/mcp/files', { jsonrpc: '2.0', id: 1, method: 'tools/list' })
    expect(await listed.json())
      .to.have.nested.property('result.tools')
      .with.length(1)
    expect(rig.asked).to.deep.equal([])
    await rig.gateway.invoke('/mcp/files', {
      jsonrpc: '2.0',
      id: 2,
      method: 'tools/call',
      params: { name: 'echo' },
    })
    expect(rig.asked).to.have.length(1)
  })

  it('may be an evaluator of code, whatever the mode says', async () => {
    const asked: EvaluationRequest[] = []
    const evaluator: DecisionEvaluator = {
      async evaluate(request) {
        asked.push(request)
        return { action: 'deny', reason: 'by code' }
      },
    }
    await using rig = await startRig({
      options: {
        runtime: { enforcement: { mode: 'local' } },
        configure: (container) => bind(container, tokens.DecisionEvaluator, { useValue: evaluator }),
      },
    })
    expect(await (await rig.call()).json()).to.include({ denial_reason: 'runtime_denied' })
    expect(asked.map(({ tool, mode }) => [tool, mode])).to.deep.equal([['echo@1.0.0', 'enforce']])
  })

  it('is told people by their pseudonyms where the policy redacts them, and by their names elsewhere', async () => {
    const asked: EvaluationRequest[] = []
    const context = fakeContext('/')
    bind(context.container, tokens.DecisionEvaluator, {
      useValue: {
        async evaluate(request) {
          asked.push(request)
          return { action: 'allow' }
        },
      },
    })
    const stage = createStage(runtimePlugin, {}, context)
    await stage.start?.(new AbortController().signal)
    try {
      for (const redacts of [undefined, { pseudonym: () => 'hmac:1', text: () => 'redacted text' }]) {
        const call = makeCall()
        call.set(identity, { tenant: 'acme', authenticated: true, user: 'ada@example.com', roles: ['desk'] })
        if (redacts !== undefined) call.set(redactor, redacts)
        call.addFinding({ reason: 'fs_violation', stage: 'security', detail: '/home/ada' })
        await stage.handle(call, async () => denied('INTERNAL', 'not sent in this test'))
      }
    } finally {
      await stage.stop?.()
    }
    expect(asked.map(({ attributes }) => [attributes['user'], attributes['findings']])).to.deep.equal([
      ['ada@example.com', [{ reason: 'fs_violation', stage: 'security', detail: '/home/ada' }]],
      ['hmac:1', [{ reason: 'fs_violation', stage: 'security', detail: 'redacted text' }]],
    ])
  })

  it('in mode local leaves the verdict to the enforcement section', async () => {
    await using rig = await startRig({ options: { ...nothingAllowed, runtime: {} } })
    expect(await (await rig.call()).json()).to.include({ denial_reason: 'tool_not_in_allowlist' })
    expect(rig.asked).to.deep.equal([])
  })

  it('of the example judges by its rules, and else by deny_on as the gateway would', async () => {
    const evaluator = await startEvaluator({
      apiKey: 'letmein',
      rules: [{ when: { tools: ['echo@*'] }, decision: { action: 'deny', reason: 'no echoes' } }],
    })
    try {
      await using rig = await startRig({
        endpoint: evaluator.url,
        remote: { apiKey: 'letmein' },
        options: nothingAllowed,
      })
      expect(await (await rig.call()).json()).to.include({
        message: 'Denied: runtime_denied (runtime, gateway): no echoes.',
      })
      const other = await rig.gateway.invoke('/mcp/files/read@1.0.0')
      expect(await other.json()).to.include({
        message:
          'Denied: runtime_denied (runtime, gateway): found: tool_not_in_allowlist (tool_not_in_allowlist).',
      })
      expect(evaluator.asked.map(({ context }) => context.tool)).to.deep.equal(['echo@1.0.0', 'read@1.0.0'])
    } finally {
      await evaluator.close()
    }
  })

  it('is asked over connections that are kept', async () => {
    const sockets = new Set<unknown>()
    await using rig = await startRig({
      runtime(response) {
        sockets.add(response.socket)
        decide(response, { action: 'allow' })
      },
    })
    for (let i = 0; i < 5; i++) await rig.call()
    expect(rig.asked).to.have.length(5)
    expect(sockets.size).to.equal(1)
  })
})
