import { mkdtempSync, rmSync } from 'node:fs'
import type { ServerResponse } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { canonicalize, sha256Hex } from '@svc/core/json'
import { expect } from 'chai'
import type { GatewayOptions } from 'svc-sdk'
import type { UpstreamCall } from '../../support/upstream.js'
import { decide, type Rig, type RuntimeAnswer, startRig } from './rig.js'

type Tool = (call: UpstreamCall, response: ServerResponse) => void

interface Case {
  readonly params?: object
  readonly tool: Tool
}

function redacting({ params, tool }: Case, mode: 'enforce' | 'observe' = 'enforce'): Promise<Rig> {
  const obligation = { type: 'redact_output', ...(params === undefined ? {} : { params }) }
  return startRig({
    runtime: (response) => decide(response, { action: 'allow', obligations: [obligation] }),
    tool,
    options: { enforcement: { mode } },
  })
}

const answer =
  (body: unknown, type = 'application/json', status = 200): Tool =>
  (_call, response) => {
    response.writeHead(status, { 'content-type': type, etag: '"secret"' })
    response.end(typeof body === 'string' || body instanceof Uint8Array ? body : JSON.stringify(body))
  }

const invoice = {
  id: 'INV-1',
  customer: { name: 'Ada', email: 'ada@example.com' },
  lines: [
    { text: 'tea', card: '4111 1111 1111 1111' },
    { text: 'for bob@example.org', card: '4111 1111 1111 1112' },
  ],
}

describe('redact_output over the invoke protocol', () => {
  const shown = async (given: Case): Promise<unknown> => {
    await using rig = await redacting(given)
    const response = await rig.call()
    const text = await response.text()
    expect(response.headers.get('etag')).to.equal(null)
    expect(rig.lastRecord().output_sha256, 'the digest is of what left the gateway').to.equal(sha256Hex(text))
    return (response.headers.get('content-type') ?? '').includes('json') ? JSON.parse(text) : text
  }

  const cases: readonly (readonly [string, unknown, object | undefined, unknown])[] = [
    ['hides everything where nothing is said', invoice, undefined, '[redacted]'],
    ['hides everything where that is said', invoice, { all: true, replacement: '***' }, '***'],
    [
      'hides a member by its path',
      invoice,
      { paths: ['$.customer.email'] },
      { ...invoice, customer: { name: 'Ada', email: '[redacted]' } },
    ],
    [
      'hides a member of each element, and an element by its index',
      { a: [{ s: 1 }, { s: 2 }], b: [1, 2] },
      { paths: ['$.a[*].s', '$["b"][1]'] },
      { a: [{ s: '[redacted]' }, { s: '[redacted]' }], b: [1, '[redacted]'] },
    ],
    [
      'hides a name at any depth',
      { name: 1, deep: [{ name: 2, more: { name: { first: 'a' } } }] },
      { paths: ['$..name'] },
      { name: '[redacted]', deep: [{ name: '[redacted]', more: { name: '[redacted]' } }] },
    ],
    [
      'hides what looks like an address or a card number, wherever it stands',
      { ...invoice, 'bob@example.org': 4111111111111111 },
      { patterns: ['email', 'payment_card'] },
      {
        id: 'INV-1',
        customer: { name: 'Ada', email: '[redacted]' },
        lines: [
          { text: 'tea', card: '[redacted]' },
          { text: 'for [redacted]', card: '4111 1111 1111 1112' },
        ],
        '[redacted]': '[redacted]',
      },
    ],
    [
      'hides a literal text',
      { note: 'Ada owes $$ to Ada' },
      { patterns: [{ literal: 'Ada' }], replacement: '$&' },
      { note: '$& owes $$ to $&' },
    ],
    [
      'hides what lies under the name of a prototype',
      JSON.parse('{"__proto__":{"secret":1},"a":1}'),
      { paths: ['$.__proto__.secret'] },
      JSON.parse('{"__proto__":{"secret":"[redacted]"},"a":1}'),
    ],
  ]
  for (const [title, body, params, expected] of cases) {
    it(title, async () => {
      expect(await shown({ ...(params === undefined ? {} : { params }), tool: answer(body) })).to.deep.equal(
        expected,
      )
    })
  }

  it('hides in plain text what the patterns select and nothing else', async () => {
    const text = 'Ada <ada@example.com>, (555) 123-4567, card 4111 1111 1111 1111 12/27'
    const tool = answer(text, 'text/plain; charset=utf-8')
    expect(await shown({ params: { patterns: ['phone', 'payment_card'] }, tool })).to.equal(
      'Ada <ada@example.com>, [redacted], card [redacted] 12/27',
    )
  })

  it('hides a literal that holds what another pattern selects', async () => {
    const patterns = ['email', { literal: 'ada@example.com is late' }]
    const tool = answer({ note: 'ada@example.com is late, bob@example.org is not' })
    expect(await shown({ params: { patterns }, tool })).to.deep.equal({
      note: '[redacted], [redacted] is not',
    })
  })

  it('does what each of several obligations says', async () => {
    await using rig = await startRig({
      runtime: (response) =>
        decide(response, {
          action: 'allow',
          obligations: [
            { type: 'redact_output', params: { paths: ['$.customer.name'] } },
            { type: 'redact_output', params: { patterns: ['email'], replacement: '-' } },
          ],
        }),
      tool: answer({ customer: invoice.customer }),
    })
    expect(await (await rig.call()).json()).to.deep.equal({ customer: { name: '[redacted]', email: '-' } })
    expect(rig.lastRecord().findings).to.deep.equal([
      {
        reason: 'output_redacted',
        stage: 'runtime',
        effect: 'reported',
        detail: 'the runtime obliges to redact $.customer.name, then email',
      },
    ])
  })

  it('withholds what no path leads into: text, and what is no text at all', async () => {
    const params = { paths: ['$.email'] }
    expect(await shown({ params, tool: answer('ada@example.com', 'text/plain') })).to.equal('[redacted]')
    expect(await shown({ params, tool: answer('{"email":"cut', 'application/json') })).to.equal('[redacted]')
    const png = answer(Buffer.from([0x89, 0x50, 0xff]), 'image/png')
    expect(await shown({ params, tool: png })).to.equal('[redacted]')
    expect(await shown({ params: { patterns: ['email'] }, tool: png })).to.equal('[redacted]')
  })

  it('withholds what is nested too deep to be walked', async () => {
    const deep = `${'['.repeat(2000)}"ada@example.com"${']'.repeat(2000)}`
    expect(await shown({ params: { patterns: ['email'] }, tool: answer(deep) })).to.equal('[redacted]')
  })

  it("redacts the upstream's errors too", async () => {
    const tool = answer({ error: 'ada@example.com has no invoices' }, 'application/json', 404)
    await using rig = await redacting({ params: { patterns: ['email'] }, tool })
    const response = await rig.call()
    expect(response.status).to.equal(404)
    expect(await response.json()).to.deep.equal({ error: '[redacted] has no invoices' })
  })

  it('gathers an answer that streams for its size, and redacts it whole', async () => {
    const filler = 'x'.repeat(3_000_000)
    const tool = answer({ filler, email: 'ada@example.com' })
    expect(await shown({ params: { paths: ['$.email'] }, tool })).to.deep.equal({
      filler,
      email: '[redacted]',
    })
  })

  it('hides an answer whole that it would take too long to look through', async () => {
    const tool = answer({ filler: 'x'.repeat(2_200_000), email: 'ada@example.com' })
    expect(await shown({ params: { patterns: ['email'] }, tool })).to.equal('[redacted]')
  })

  it('redacts the events of a stream one by one where paths say what', async () => {
    const tool = answer(
      ': a secret comment\n\nid: 1\ndata: {"email":"a","n":1}\n\ndata: plain\n\n',
      'text/event-stream',
    )
    const text = await shown({ params: { paths: ['$.email'] }, tool })
    expect(String(text).replaceAll(': withheld\n\n', '')).to.equal(
      'event: message\ndata: {"email":"[redacted]","n":1}\n\nevent: message\ndata: [redacted]\n\n',
    )
  })

  it('withholds the events of a stream where a pattern could run from one into the next', async () => {
    const tool = answer('data: ada@exam\n\ndata: ple.com\n\n', 'text/event-stream')
    const text = await shown({ params: { patterns: ['email'] }, tool })
    expect(String(text).replaceAll(': withheld\n\n', '')).to.equal('data: "[redacted]"\n\n')
  })

  it('is only recorded in observe mode', async () => {
    await using rig = await redacting({ tool: answer(invoice) }, 'observe')
    expect(await (await rig.call()).json()).to.deep.equal(invoice)
    expect(rig.lastRecord().risk_tags).to.deep.equal(['output_redacted'])
  })
})

describe('redact_output over MCP', () => {
  const info = {
    protocolVersion: '2025-11-25',
    capabilities: {},
    serverInfo: { name: 's', version: '1.0.0' },
  }
  const methods = {
    'tools/call': { name: 'echo', arguments: {} },
    'prompts/get': { name: 'p' },
    'resources/read': { uri: 'memo://a' },
    'completion/complete': { ref: { type: 'ref/prompt', name: 'p' }, argument: { name: 'a', value: '' } },
  } as const
  type Method = keyof typeof methods

  /** A server that answers `initialize`, and anything else with `result` or as `tool` does. */
  const serving =
    (rest: (id: unknown, response: ServerResponse) => void): Tool =>
    (call, response) => {
      const { id, method } = JSON.parse(call.body) as { id: unknown; method: string }
      if (method !== 'initialize') return rest(id, response)
      response.setHeader('content-type', 'application/json')
      response.end(JSON.stringify({ jsonrpc: '2.0', id, result: info }))
    }
  const giving = (result: unknown): Tool =>
    serving((id, response) => {
      response.setHeader('content-type', 'application/json')
      response.end(JSON.stringify({ jsonrpc: '2.0', id, result }))
    })

  async function ask(params: object | undefined, tool: Tool, method: Method = 'tools/call') {
    await using rig = await redacting({ ...(params === undefined ? {} : { params }), tool })
    const response = await rig.gateway.invoke('/mcp/files', {
      jsonrpc: '2.0',
      id: 7,
      method,
      params: methods[method],
    })
    return { text: await response.text(), record: rig.lastRecord() }
  }

  async function resultOf(params: object | undefined, given: unknown, method: Method = 'tools/call') {
    const { text, record } = await ask(params, giving(given), method)
    const { result } = JSON.parse(text) as { result: unknown }
    expect(record.output_sha256, 'the digest is of what left the gateway').to.equal(
      sha256Hex(canonicalize(result)),
    )
    return result
  }

  const hidden = { type: 'text', text: '[redacted]' }

  it('hides everything of each kind of answer, in the shape that clients expect', async () => {
    const tool = { content: [{ type: 'text', text: 's3cret' }], structuredContent: { s: 1 }, isError: true }
    expect(await resultOf(undefined, tool)).to.deep.equal({ isError: true, content: [hidden] })
    const prompt = { description: 's3cret', messages: [{ role: 'user', content: hidden }] }
    expect(await resultOf(undefined, prompt, 'prompts/get')).to.deep.equal({
      messages: [{ role: 'user', content: hidden }],
    })
    const resource = { contents: [{ uri: 'memo://a', blob: 'czNjcmV0' }] }
    expect(await resultOf(undefined, resource, 'resources/read')).to.deep.equal({
      contents: [{ uri: 'memo://a', mimeType: 'text/plain', text: '[redacted]' }],
    })
    const completion = { completion: { values: ['s3cret'] } }
    expect(await resultOf(undefined, completion, 'completion/complete')).to.deep.equal({
      completion: { values: [] },
    })
  })

  it('follows paths in structured content, in JSON within text, and in the result itself', async () => {
    const given = {
      content: [
        { type: 'text', text: '{"email":"ada@example.com","n":1,"email":"twice"}' },
        { type: 'text', text: 'Ada <ada@example.com>' },
      ],
      structuredContent: { email: 'ada@example.com', n: 1 },
      _meta: { email: 'kept', total: 3 },
    }
    expect(await resultOf({ paths: ['$.email', '$._meta.total'] }, given)).to.deep.equal({
      content: [{ type: 'text', text: '{"email":"[redacted]","n":1}' }, hidden],
      structuredContent: { email: '[redacted]', n: 1 },
      _meta: { email: 'kept', total: '[redacted]' },
    })
  })

  it('withholds what only a program can read', async () => {
    const given = {
      content: [
        { type: 'image', data: 'AAAA', mimeType: 'image/png' },
        { type: 'resource_link', uri: 'memo://ada@example.com', name: 'x' },
        { type: 'resource', resource: { uri: 'memo://a', blob: 'AAAA' } },
        { type: 'resource', resource: { uri: 'memo://b', text: 'ada@example.com' } },
        { type: 'unheard-of', text: 'ada@example.com' },
      ],
    }
    expect(await resultOf({ patterns: ['email'] }, given)).to.deep.equal({
      content: [
        hidden,
        hidden,
        hidden,
        { type: 'resource', resource: { uri: 'memo://b', text: '[redacted]' } },
        hidden,
      ],
    })
  })

  it('withholds a task, whose outcome could be fetched past the verdict', async () => {
    const given = { task: { taskId: 't-1', status: 'working' } }
    expect(await resultOf({ patterns: ['email'] }, given)).to.deep.equal({ content: [hidden] })
  })

  it('redacts errors: their code says how the call ended', async () => {
    const { text } = await ask(
      { patterns: ['email'] },
      serving((id, response) => {
        response.setHeader('content-type', 'application/json')
        const error = { code: -32050, message: 'ada@example.com?', data: { who: 'ada@example.com' } }
        response.end(JSON.stringify({ jsonrpc: '2.0', id, error }))
      }),
    )
    expect(JSON.parse(text)).to.deep.equal({
      jsonrpc: '2.0',
      id: 7,
      error: { code: -32050, message: '[redacted]?', data: { who: '[redacted]' } },
    })
  })

  const events = (...messages: unknown[]): string =>
    messages.map((message, n) => `id: e${n}\ndata: ${JSON.stringify(message)}\n\n`).join('')

  it('lets nothing of a stream through but the response, redacted, and gives no id to come back with', async () => {
    const { text, record } = await ask(
      { patterns: ['email'] },
      serving((id, response) => {
        response.setHeader('content-type', 'text/event-stream')
        const result = { content: [{ type: 'text', text: 'ada@example.com' }] }
        response.end(
          `: s3cret\n\n${events(
            { jsonrpc: '2.0', method: 'notifications/message', params: { data: 's3cret' } },
            { jsonrpc: '2.0', id: 1, method: 'sampling/createMessage', params: { s: 's3cret' } },
            { jsonrpc: '2.0', id, result },
            { jsonrpc: '2.0', method: 'notifications/progress', params: { message: 's3cret' } },
          )}`,
        )
      }),
    )
    const result = { content: [hidden] }
    expect(text.replaceAll(': withheld\n\n', '')).to.equal(
      `event: message\ndata: ${JSON.stringify({ jsonrpc: '2.0', id: 7, result })}\n\n`,
    )
    expect(record.output_sha256).to.equal(sha256Hex(canonicalize(result)))
  })

  it('ends with an error where the stream ends early, as its client cannot come back', async () => {
    const { text, record } = await ask(
      { patterns: ['email'] },
      serving((_id, response) => {
        response.setHeader('content-type', 'text/event-stream')
        response.end('id: e1\ndata:\n\n')
      }),
    )
    expect(text.replaceAll(': withheld\n\n', '')).to.include('"error":{"code":502')
    expect(record).to.include({ error: 'UPSTREAM_UNREACHABLE', output_sha256: null })
  })

  it("lets the gateway's own refusals pass as they are", async () => {
    const { text } = await ask(
      undefined,
      serving((_id, response) => response.end('rubbish')),
    )
    expect(JSON.parse(text)).to.have.nested.property('error.data.error', 'UPSTREAM_UNREACHABLE')
  })
})

describe('redact_output of an answer that is replayed', () => {
  const key = { 'idempotency-key': 'k-1' }
  let dir: string

  beforeEach(() => {
    dir = mkdtempSync(join(tmpdir(), 'svc-test-'))
  })

  afterEach(() => rmSync(dir, { recursive: true, force: true }))

  /** The first call is allowed as it is, the second with the obligation. */
  const twice = (tool: Tool, params: object): Promise<Rig> =>
    startRig({
      runtime: (response, _call, nth) =>
        decide(response, {
          action: 'allow',
          ...(nth === 1 ? {} : { obligations: [{ type: 'redact_output', params }] }),
        }),
      tool,
      options: { dedupe: { dir } },
    })

  const cases: readonly (readonly [string, Tool, object, string])[] = [
    ['JSON', answer(invoice), { paths: ['$.customer', '$.lines'] }, '"customer":"[redacted]"'],
    [
      'events, by paths',
      answer('data: {"email":"ada@example.com"}\n\n', 'text/event-stream'),
      { paths: ['$.email'] },
      'event: message\ndata: {"email":"[redacted]"}\n\n',
    ],
    [
      'events, by a pattern',
      answer('data: ada@exam\n\ndata: ple.com\n\n', 'text/event-stream'),
      { patterns: ['email'] },
      'data: "[redacted]"\n\n',
    ],
  ]
  for (const [what, tool, params, expected] of cases) {
    it(`is done under the verdict on the call that gets it: ${what}`, async () => {
      await using rig = await twice(tool, params)
      expect(await (await rig.call({}, key)).text()).to.include('ada@exam')
      const replayed = await rig.call({}, key)
      expect(replayed.headers.get('x-dedupe')).to.equal('replay')
      const text = await replayed.text()
      expect(text).to.include(expected).and.not.include('ada')
      expect(rig.served).to.have.length(1)
      expect(rig.lastRecord().output_sha256).to.equal(sha256Hex(text))
    })
  }

  it('is done under the verdict on the call that gets it: a stream of the MCP endpoint', async () => {
    const tool: Tool = (call, response) => {
      const { id, method } = JSON.parse(call.body) as { id: unknown; method: string }
      const info = {
        protocolVersion: '2025-11-25',
        capabilities: {},
        serverInfo: { name: 's', version: '1' },
      }
      const result = method === 'initialize' ? info : { content: [{ type: 'text', text: 'ada@example.com' }] }
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      response.end(`data: ${JSON.stringify({ jsonrpc: '2.0', id, result })}\n\n`)
    }
    await using rig = await twice(tool, { patterns: ['email'] })
    const ask = async (id: number) => {
      const body = { jsonrpc: '2.0', id, method: 'tools/call', params: { name: 'echo', arguments: {} } }
      return (await rig.gateway.invoke('/mcp/files', body, key)).text()
    }
    expect(await ask(1)).to.include('ada@example.com')
    const result = { content: [{ type: 'text', text: '[redacted]' }] }
    expect(JSON.parse(await ask(2))).to.deep.equal({ jsonrpc: '2.0', id: 2, result })
    expect(rig.lastRecord()).to.include({ dedupe: 'replay', output_sha256: sha256Hex(canonicalize(result)) })
  })
})

describe('require_approval', () => {
  it('makes an escalation of what was allowed, and does not weaken a denial', async () => {
    for (const [action, reason] of [
      ['allow', 'runtime_escalated'],
      ['deny', 'runtime_denied'],
    ]) {
      await using rig = await startRig({
        runtime: (response) =>
          decide(response, { action: action ?? '', obligations: [{ type: 'require_approval' }] }),
      })
      expect(await (await rig.call()).json()).to.include({ denial_reason: reason })
      expect(rig.served).to.deep.equal([])
    }
  })
})

describe('a runtime that wants a person to decide', () => {
  const people = (strategy: string) => ({
    enforcement: { escalations: { adapter: 'memory' } },
    security: {
      side_effects: { approve_high_risk: true, human_escalation: { approval_strategy: strategy } },
    },
  })
  const runtime: RuntimeAnswer = (response) =>
    decide(response, {
      action: 'escalate',
      reason: 'much money',
      obligations: [{ type: 'redact_output', params: { paths: ['$.customer'] } }],
    })

  it('has the call wait for one', async () => {
    await using rig = await startRig({ runtime, options: people('single_approver') as GatewayOptions })
    const response = await rig.call()
    expect(response.status).to.equal(403)
    const body = (await response.json()) as object
    expect(body).to.include({ error: 'ESCALATION_PENDING', escalation_status: 'pending' })
    expect(body).to.have.property('escalation_id').that.is.a('string')
    expect(rig.served).to.deep.equal([])
  })

  it('has its obligations kept once the call is let through', async () => {
    await using rig = await startRig({
      runtime,
      tool: answer(invoice),
      options: people('auto_allow') as GatewayOptions,
    })
    expect(await (await rig.call()).json()).to.include({ id: 'INV-1', customer: '[redacted]' })
    expect(rig.lastRecord().findings?.map(({ reason, effect }) => [reason, effect])).to.deep.equal([
      ['output_redacted', 'reported'],
      ['runtime_escalated', 'escalate'],
    ])
  })
})
