import { bind, type DecisionEvaluator, type EvaluationRequest, redactor, tokens } from '@svc/core'
import { sha256Hex } from '@svc/core/json'
import { startEvaluator } from '@svc/example-runtime-evaluator/evaluator'
import { runtimePlugin } from '@svc/plugin-runtime'
import { expect } from 'chai'
import { makeCall } from '../../support/call.js'
import { StageRig, send } from '../../support/stage-rig.js'
import { startUpstream } from '../../support/upstream.js'
import { decide, nothingAllowed, startSetup } from './gateway.js'

describe('a remote runtime', () => {
  it('gets the protocol version of the policy and has to send it back', async () => {
    const enforcement = (endpoint: string) => ({
      mode: 'remote' as const,
      protocolVersion: '2027-01-01',
      remote: { endpoint, maxRetries: 0 },
    })
    for (const [version, status] of [
      ['2027-01-01', 200],
      ['2026-02-01', 503],
    ] as const) {
      await using runtime = await startUpstream((_call, response) =>
        decide(response, { action: 'allow' }, version),
      )
      const gateway = { runtime: { enforcement: enforcement(runtime.url) } }
      await using setup = await startSetup({ gateway })
      expect((await setup.call()).status).to.equal(status)
      expect(JSON.parse(runtime.calls[0]?.body ?? '')).to.include({ protocolVersion: '2027-01-01' })
    }
  })

  it('gets one request per call and lets the call pass', async () => {
    await using setup = await startSetup({ gateway: nothingAllowed })
    const response = await setup.call({ a: 1 }, { 'x-node-id': 'node-7', 'x-agent-ref': 'run-9' })
    expect(await response.json()).to.deep.equal({ echoed: { a: 1 } })
    const [first, ...more] = setup.runtimeRequests
    expect(more).to.deep.equal([])
    const { requestId, ...request } = JSON.parse(first?.body ?? '') as { requestId: string }
    const record = setup.lastRecord()
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

  it('receives deny_on with its aliases, and arguments with includeArguments', async () => {
    await using setup = await startSetup({
      remote: { includeArguments: true },
      gateway: {
        enforcement: { mode: 'observe', deny_on: ['idempotency_missing', 'tool_not_in_allowlist'] },
      },
    })
    await setup.call({ secret: 'plans' })
    const { enforcement, input } = JSON.parse(setup.runtimeRequests[0]?.body ?? '') as {
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

  it('overrides deny_on when it allows, and the record reports the findings', async () => {
    await using setup = await startSetup({ gateway: nothingAllowed })
    expect((await setup.call()).status).to.equal(200)
    expect(setup.lastRecord()).to.deep.include({ status: 'ok', risk_tags: ['tool_not_in_allowlist'] })
    expect(setup.lastRecord().policy).to.include({ decision: 'allow' })
    expect(setup.lastRecord().findings?.map(({ reason, effect }) => [reason, effect])).to.deep.equal([
      ['tool_not_in_allowlist', 'reported'],
    ])
  })

  it('cannot allow an exceeded duration that its own evaluation caused', async () => {
    await using setup = await startSetup({
      // The duration limit passes before the decision arrives.
      runtime: (response) => void setTimeout(() => decide(response, { action: 'allow' }), 60),
      gateway: { security: { limits: { max_duration_ms: 20 } } },
    })
    const response = await setup.call()
    expect(response.status).to.equal(504)
    expect(await response.json()).to.include({ error: 'DURATION_EXCEEDED', sent: false })
    expect(setup.toolRequests).to.deep.equal([])
    expect(setup.lastRecord().findings?.map(({ reason, effect }) => [reason, effect])).to.deep.equal([
      ['duration_too_long', 'deny'],
    ])
  })

  it('does not change the effects of findings in observe mode', async () => {
    await using setup = await startSetup({
      runtime: (response) =>
        decide(response, {
          action: 'allow',
          obligations: [{ type: 'redact_output', params: { paths: ['$.a'] } }],
        }),
      gateway: { ...nothingAllowed, enforcement: { mode: 'observe' } },
    })
    expect((await setup.call()).status).to.equal(200)
    expect(setup.lastRecord().findings?.map(({ reason, effect }) => [reason, effect])).to.deep.equal([
      ['tool_not_in_allowlist', 'would_deny'],
      ['output_redacted', 'reported'],
    ])
  })

  for (const [action, reason] of [
    ['deny', 'runtime_denied'],
    ['clarify', 'runtime_clarify'],
    ['escalate', 'runtime_escalated'],
  ] as const) {
    it(`refuses a call without findings: ${action} becomes ${reason}`, async () => {
      await using setup = await startSetup({
        runtime: (response) => decide(response, { action, reason: 'why not', reasons: ['because'] }),
      })
      const response = await setup.call()
      expect(response.status).to.equal(403)
      expect(await response.json()).to.include({
        error: 'TOOL_NOT_ALLOWED',
        denial_type: 'runtime',
        denial_reason: reason,
        sent: false,
        message: `Denied: ${reason} (runtime, gateway): why not (because).`,
      })
      expect(setup.toolRequests).to.deep.equal([])
      expect(setup.lastRecord()).to.deep.include({ error: 'TOOL_NOT_ALLOWED', risk_tags: [reason] })
      expect(setup.lastRecord().policy).to.include({ decision: 'deny' })
    })

    it(`is only recorded in observe mode: ${action}`, async () => {
      await using setup = await startSetup({
        runtime: (response) => decide(response, { action }),
        gateway: { enforcement: { mode: 'observe' } },
      })
      expect((await setup.call()).status).to.equal(200)
      expect(setup.lastRecord().policy).to.include({ decision: 'allow' })
      expect(setup.lastRecord().findings?.map((finding) => [finding.reason, finding.effect])).to.deep.equal([
        [reason, 'would_deny'],
      ])
    })
  }

  it('does not override limits', async () => {
    await using setup = await startSetup({
      gateway: {
        entitlements: {
          default_plan: 'p',
          plans: { p: { calls_per_day: 1 } },
          tenants: { acme: { plan: 'p', allowlist: ['*'] } },
        },
      },
    })
    await setup.call()
    expect((await setup.call()).status).to.equal(429)
  })

  it('gets no request for lists, which the policy decides on', async () => {
    await using setup = await startSetup({
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
    const listed = await setup.gateway.invoke('/mcp/files', { jsonrpc: '2.0', id: 1, method: 'tools/list' })
    expect(await listed.json())
      .to.have.nested.property('result.tools')
      .with.length(1)
    expect(setup.runtimeRequests).to.deep.equal([])
    await setup.gateway.invoke('/mcp/files', {
      jsonrpc: '2.0',
      id: 2,
      method: 'tools/call',
      params: { name: 'echo' },
    })
    expect(setup.runtimeRequests).to.have.length(1)
  })

  it('can be an evaluator bound in code', async () => {
    const requests: EvaluationRequest[] = []
    const evaluator: DecisionEvaluator = {
      async evaluate(request) {
        requests.push(request)
        return { action: 'deny', reason: 'by code' }
      },
    }
    await using setup = await startSetup({
      gateway: {
        runtime: {},
        configure: (container) => bind(container, tokens.DecisionEvaluator, { useValue: evaluator }),
      },
    })
    expect(await (await setup.call()).json()).to.include({ denial_reason: 'runtime_denied' })
    expect(requests.map(({ tool, mode }) => [tool, mode])).to.deep.equal([['echo@1.0.0', 'enforce']])
  })

  it('receives pseudonyms of people if the policy redacts identities, and names elsewhere', async () => {
    const requests: EvaluationRequest[] = []
    await using rig = new StageRig()
    rig.bind(tokens.DecisionEvaluator, {
      async evaluate(request) {
        requests.push(request)
        return { action: 'allow' }
      },
    })
    const stage = await rig.start(runtimePlugin)
    for (const redacts of [undefined, { pseudonym: () => 'hmac:1', text: () => 'redacted text' }]) {
      const call = makeCall({
        caller: { user: 'ada@example.com' },
        findings: [{ reason: 'fs_violation', stage: 'security', detail: '/home/ada' }],
      })
      if (redacts !== undefined) call.set(redactor, redacts)
      await send(stage, call)
    }
    expect(requests.map(({ attributes }) => [attributes['user'], attributes['findings']])).to.deep.equal([
      ['ada@example.com', [{ reason: 'fs_violation', stage: 'security', detail: '/home/ada' }]],
      ['hmac:1', [{ reason: 'fs_violation', stage: 'security', detail: 'redacted text' }]],
    ])
  })

  it('gets no request in mode local', async () => {
    await using setup = await startSetup({ gateway: { ...nothingAllowed, runtime: {} } })
    expect(await (await setup.call()).json()).to.include({ denial_reason: 'tool_not_in_allowlist' })
    expect(setup.runtimeRequests).to.deep.equal([])
  })

  it('of the example decides by its rules, else by deny_on like the gateway', async () => {
    const evaluator = await startEvaluator({
      apiKey: 'letmein',
      rules: [{ when: { tools: ['echo@*'] }, decision: { action: 'deny', reason: 'no echoes' } }],
    })
    try {
      await using setup = await startSetup({
        endpoint: evaluator.url,
        remote: { apiKey: 'letmein' },
        gateway: nothingAllowed,
      })
      expect(await (await setup.call()).json()).to.include({
        message: 'Denied: runtime_denied (runtime, gateway): no echoes.',
      })
      const other = await setup.gateway.invoke('/mcp/files/read@1.0.0')
      expect(await other.json()).to.include({
        message:
          'Denied: runtime_denied (runtime, gateway): found: tool_not_in_allowlist (tool_not_in_allowlist).',
      })
      expect(evaluator.requests.map(({ context }) => context.tool)).to.deep.equal([
        'echo@1.0.0',
        'read@1.0.0',
      ])
    } finally {
      await evaluator.close()
    }
  })

  it('is called over persistent connections', async () => {
    const sockets = new Set<unknown>()
    await using setup = await startSetup({
      runtime(response) {
        sockets.add(response.socket)
        decide(response, { action: 'allow' })
      },
    })
    for (let i = 0; i < 5; i++) await setup.call()
    expect(setup.runtimeRequests).to.have.length(5)
    expect(sockets.size).to.equal(1)
  })
})
