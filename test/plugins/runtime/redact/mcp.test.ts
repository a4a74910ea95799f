import type { ServerResponse } from 'node:http'
import { canonicalize, sha256Hex } from '@svc/core/json'
import { expect } from 'chai'
import { startRedacting, type Tool } from './support.js'

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

  /** Responds to `initialize`, and passes every other request to `respond`. */
  const serving =
    (respond: (id: unknown, response: ServerResponse) => void): Tool =>
    (call, response) => {
      const { id, method } = JSON.parse(call.body) as { id: unknown; method: string }
      if (method !== 'initialize') return respond(id, response)
      response.setHeader('content-type', 'application/json')
      response.end(JSON.stringify({ jsonrpc: '2.0', id, result: info }))
    }
  const respondingWith = (result: unknown): Tool =>
    serving((id, response) => {
      response.setHeader('content-type', 'application/json')
      response.end(JSON.stringify({ jsonrpc: '2.0', id, result }))
    })

  async function ask(params: object | undefined, tool: Tool, method: Method = 'tools/call') {
    await using setup = await startRedacting({ ...(params === undefined ? {} : { params }), tool })
    const response = await setup.gateway.invoke('/mcp/files', {
      jsonrpc: '2.0',
      id: 7,
      method,
      params: methods[method],
    })
    return { text: await response.text(), record: setup.lastRecord() }
  }

  async function resultOf(params: object | undefined, original: unknown, method: Method = 'tools/call') {
    const { text, record } = await ask(params, respondingWith(original), method)
    const { result } = JSON.parse(text) as { result: unknown }
    expect(record.output_sha256, 'the digest is that of the redacted response').to.equal(
      sha256Hex(canonicalize(result)),
    )
    return result
  }

  const hidden = { type: 'text', text: '[redacted]' }

  it('replaces everything in each kind of result and keeps the result valid', async () => {
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

  it('applies paths to structured content, to JSON in text, and to the result itself', async () => {
    const original = {
      content: [
        { type: 'text', text: '{"email":"ada@example.com","n":1,"email":"twice"}' },
        { type: 'text', text: 'Ada <ada@example.com>' },
      ],
      structuredContent: { email: 'ada@example.com', n: 1 },
      _meta: { email: 'kept', total: 3 },
    }
    expect(await resultOf({ paths: ['$.email', '$._meta.total'] }, original)).to.deep.equal({
      content: [{ type: 'text', text: '{"email":"[redacted]","n":1}' }, hidden],
      structuredContent: { email: '[redacted]', n: 1 },
      _meta: { email: 'kept', total: '[redacted]' },
    })
  })

  it('replaces images, links, blobs and unknown content', async () => {
    const original = {
      content: [
        { type: 'image', data: 'AAAA', mimeType: 'image/png' },
        { type: 'resource_link', uri: 'memo://ada@example.com', name: 'x' },
        { type: 'resource', resource: { uri: 'memo://a', blob: 'AAAA' } },
        { type: 'resource', resource: { uri: 'memo://b', text: 'ada@example.com' } },
        { type: 'unheard-of', text: 'ada@example.com' },
      ],
    }
    expect(await resultOf({ patterns: ['email'] }, original)).to.deep.equal({
      content: [
        hidden,
        hidden,
        hidden,
        { type: 'resource', resource: { uri: 'memo://b', text: '[redacted]' } },
        hidden,
      ],
    })
  })

  it('removes a task id, with which the unredacted result could be fetched', async () => {
    const original = { task: { taskId: 't-1', status: 'working' } }
    expect(await resultOf({ patterns: ['email'] }, original)).to.deep.equal({ content: [hidden] })
  })

  it('redacts message and data of errors and keeps their code', async () => {
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

  it('passes only the redacted response of a stream, without event ids', async () => {
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
      `:\n\nevent: message\ndata: ${JSON.stringify({ jsonrpc: '2.0', id: 7, result })}\n\n`,
    )
    expect(record.output_sha256).to.equal(sha256Hex(canonicalize(result)))
  })

  it('ends with an error if the stream ends early, because clients cannot resume it', async () => {
    const { text, record } = await ask(
      { patterns: ['email'] },
      serving((_id, response) => {
        response.setHeader('content-type', 'text/event-stream')
        response.setHeader('mcp-session-id', 's')
        response.end('id: e1\ndata:\n\n')
      }),
    )
    expect(text.replaceAll(': withheld\n\n', '')).to.include('"error":{"code":502')
    expect(record).to.include({ error: 'UPSTREAM_UNREACHABLE', output_sha256: null })
  })

  it("does not change the gateway's own refusals", async () => {
    const { text } = await ask(
      undefined,
      serving((_id, response) => response.end('rubbish')),
    )
    expect(JSON.parse(text)).to.have.nested.property('error.data.error', 'UPSTREAM_UNREACHABLE')
  })
})
