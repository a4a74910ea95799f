// What the official clients read of a server must arrive: the tool has run. Servers write the same response in many forms.
import type { ServerResponse } from 'node:http'
import { brotliCompressSync, constants, deflateSync, gzipSync } from 'node:zlib'
import { canonicalize, sha256Hex } from '@svc/core/json'
import { expect } from 'chai'
import fc from 'fast-check'
import { startTestGateway, type TestGateway } from '../../support/gateway.js'
import { json, type Message, serverOf } from '../../support/mcp-server.js'
import { propertyRuns } from '../../support/property-runs.js'

/** Of the lowest quality, as the others take milliseconds for a hundred bytes. */
const brotli = (bytes: Buffer | string) =>
  brotliCompressSync(bytes, {
    params: { [constants.BROTLI_PARAM_QUALITY]: 0, [constants.BROTLI_PARAM_LGWIN]: 10 },
  })

const codings = {
  none: (bytes: Buffer) => bytes,
  gzip: gzipSync,
  'x-gzip': gzipSync,
  deflate: deflateSync,
  br: brotli,
} as const
const results = {
  plain: '{"content":[{"type":"text","text":"ran"}]}',
  'half of a surrogate pair': '{"content":[{"type":"text","text":"ran \\ud83d"}]}',
  'a name with half of one': '{"content":[{"type":"text","text":"ran"}],"structuredContent":{"\\udc00":1}}',
  'a number beyond a double': '{"content":[{"type":"text","text":"ran"}],"structuredContent":{"n":1e400}}',
  'a long integer':
    '{"content":[{"type":"text","text":"ran"}],"structuredContent":{"n":12345678901234567890}}',
}
const failure = '{"code":-32000,"message":"it ran"}'

const form = fc.record({
  result: fc.constantFrom(...(Object.keys(results) as (keyof typeof results)[])),
  isError: fc.boolean(),
  /** The member that is absent is written as null. */
  hasNull: fc.boolean(),
  idIsText: fc.boolean(),
  order: fc.shuffledSubarray([0, 1, 2, 3], { minLength: 4 }),
  type: fc.constantFrom(
    'application/json',
    'application/json; charset=utf-8',
    'application/json-rpc',
    'text/plain',
    '',
    'events',
  ),
  coding: fc.constantFrom(...(Object.keys(codings) as (keyof typeof codings)[])),
  hasMark: fc.boolean(),
})
type Form = typeof form extends fc.Arbitrary<infer T> ? T : never

function textOf({ result, isError, hasNull, idIsText, order }: Form, id: unknown): string {
  const members = [
    '"jsonrpc":"2.0"',
    `"id":${idIsText && typeof id === 'number' ? `"${id}"` : JSON.stringify(id)}`,
    isError ? `"error":${failure}` : `"result":${results[result]}`,
    ...(hasNull ? [isError ? '"result":null' : '"error":null'] : []),
  ]
  return `{${order.flatMap((at) => members[at] ?? []).join(' , ')}}`
}

function respond(response: ServerResponse, given: Form, id: unknown): void {
  const { type, coding, hasMark } = given
  const text = textOf(given, id)
  const body = type === 'events' ? `event: message\ndata: ${text}\n\n` : text
  const contentType = type === 'events' ? 'text/event-stream' : type
  response
    .writeHead(200, {
      ...(contentType === '' ? {} : { 'content-type': contentType }),
      ...(coding === 'none' ? {} : { 'content-encoding': coding }),
    })
    .end(codings[coding](Buffer.from((hasMark ? '\ufeff' : '') + body)))
}

describe('the response of a tool that has run', function () {
  this.timeout(60_000)
  let upstream: Awaited<ReturnType<typeof serverOf>>['upstream']
  let gateway: TestGateway
  let sent: Form

  before(async () => {
    const served = await serverOf((message: Message, response) => {
      const { method, id } = message
      if (method === 'tools/list')
        json(response, { jsonrpc: '2.0', id, result: { tools: [{ name: 'echo', inputSchema: {} }] } })
      else if (method === 'tools/call') respond(response, sent, id)
      else if (id === undefined) response.writeHead(202).end()
      else json(response, { jsonrpc: '2.0', id, error: { code: -32601, message: 'no such method' } })
    })
    upstream = served.upstream
    gateway = await startTestGateway({
      targets: { files: `${upstream.url}/mcp`, tools: `mcp+${upstream.url}/mcp` },
    })
  })
  after(async () => {
    await gateway[Symbol.asyncDispose]()
    await upstream[Symbol.asyncDispose]()
  })

  const post = async (path: string, message: object, headers: Record<string, string> = {}) => {
    const response = await gateway.invoke(path, message, {
      accept: 'application/json, text/event-stream',
      'mcp-protocol-version': '2025-11-25',
      ...headers,
    })
    const body = Buffer.from(await response.arrayBuffer()).toString()
    const data = /^data: (.*)$/m.exec(body)
    return { response, body, text: data?.[1] ?? body }
  }
  const sessionAt = async (path: string): Promise<Record<string, string>> => {
    const params = {
      protocolVersion: '2025-11-25',
      capabilities: {},
      clientInfo: { name: 't', version: '1' },
    }
    const { response } = await post(path, { jsonrpc: '2.0', id: 0, method: 'initialize', params })
    const id = response.headers.get('mcp-session-id')
    return id === null ? {} : { 'mcp-session-id': id }
  }

  for (const [path, name] of [
    ['/mcp/files', 'echo'],
    ['/mcp', 'files__echo'],
  ] as const) {
    it(`arrives in one form, whatever the form it came in: ${path}`, async () => {
      const headers = await sessionAt(path)
      await fc.assert(
        fc.asyncProperty(form, async (given) => {
          sent = given
          const message = { jsonrpc: '2.0', id: 7, method: 'tools/call', params: { name, arguments: {} } }
          const { response, body, text } = await post(path, message, headers)
          expect(response.headers.get('content-type')).to.match(/^(?:application\/json|text\/event-stream)/)
          expect(response.headers.get('content-encoding')).to.equal(null)
          expect(body.charCodeAt(0)).to.not.equal(0xfeff)
          const shown = JSON.parse(text) as Record<string, unknown>
          expect(shown).to.have.property('id', 7)
          expect(Object.keys(shown)).to.have.members(['jsonrpc', 'id', given.isError ? 'error' : 'result'])
          // Numbers and escapes arrive as the server wrote them.
          expect(text).to.contain(given.isError ? failure : results[given.result])
          const record = gateway.records().at(-1)
          if (given.isError)
            expect(record).to.include({ status: 'error', error: 'UPSTREAM', output_sha256: null })
          else expect(record).to.include({ status: 'ok', ...outputOf(shown['result'], text, given.result) })
        }),
        { numRuns: propertyRuns(150) },
      )
    })
  }

  it('arrives over the invoke protocol', async () => {
    await fc.assert(
      fc.asyncProperty(form, async (given) => {
        sent = given
        const { response, body } = await post('/mcp/tools/echo@2.0.0', {})
        expect(response.status).to.equal(given.isError ? 502 : 200)
        expect(body).to.contain('ran')
        expect(body).to.not.contain('UPSTREAM_UNREACHABLE')
      }),
      { numRuns: propertyRuns(50) },
    )
  })
})

describe('the response of a command that has run', () => {
  it('arrives although each line begins with a byte order mark, ids are text and absent members null', async () => {
    const program = `
      const { createInterface } = require('node:readline')
      const results = {
        initialize: { protocolVersion: '2025-11-25', capabilities: {}, serverInfo: { name: 's', version: '1.0.0' } },
        'tools/list': { tools: [{ name: 'echo', inputSchema: {} }] },
      }
      createInterface({ input: process.stdin }).on('line', (line) => {
        const { id, method } = JSON.parse(line)
        if (id === undefined) return
        const result = JSON.stringify(results[method] ?? { content: [] }).replace(/]}$/, '],"n":1e400,"s":"\\\\ud83d"}')
        const json = results[method] === undefined ? result : JSON.stringify(results[method])
        process.stdout.write('\ufeff{"jsonrpc":"2.0","error":null,"id":"' + id + '","result":' + json + '}\\n')
      })`
    await using gateway = await startTestGateway({
      targets: { files: { command: process.execPath, args: ['-e', program] } },
    })
    const message = { jsonrpc: '2.0', id: 7, method: 'tools/call', params: { name: 'echo', arguments: {} } }
    const headers = { accept: 'application/json, text/event-stream', 'mcp-protocol-version': '2025-11-25' }
    const params = {
      protocolVersion: '2025-11-25',
      capabilities: {},
      clientInfo: { name: 't', version: '1' },
    }
    const begun = await gateway.invoke(
      '/mcp/files',
      { ...message, id: 0, method: 'initialize', params },
      headers,
    )
    await begun.text()
    const session = { 'mcp-session-id': begun.headers.get('mcp-session-id') ?? '' }
    const response = await gateway.invoke('/mcp/files', message, { ...headers, ...session })
    expect(await response.text()).to.equal(
      '{"jsonrpc":"2.0","id":7,"result":{"content":[],"n":1e400,"s":"\\ud83d"}}',
    )
    expect(gateway.records().at(-1)).to.include({ status: 'ok', output_form: 'bytes' })
  })
})

/** The members of a record, computed independently. */
function outputOf(result: unknown, text: string, name: keyof typeof results): object {
  if (name === 'a long integer')
    return {
      output_sha256: sha256Hex(canonicalize(result).replace('12345678901234567000', '12345678901234567890')),
      output_form: 'exact',
    }
  try {
    return { output_sha256: sha256Hex(canonicalize(result)) }
  } catch {
    // The result has no canonical form.
    return { output_sha256: sha256Hex(text), output_form: 'bytes' }
  }
}

describe('a compressed response that nobody asked for', () => {
  const call = { jsonrpc: '2.0', id: 7, method: 'tools/call', params: { name: 'echo', arguments: {} } }

  async function responseTo(body: Uint8Array, coding: string, maxResponseBytes: number): Promise<Message> {
    const { upstream } = await serverOf((_message, response) =>
      response.writeHead(200, { 'content-type': 'application/json', 'content-encoding': coding }).end(body),
    )
    try {
      await using gateway = await startTestGateway({
        targets: { files: `${upstream.url}/mcp` },
        server: { maxResponseBytes },
      })
      const response = await gateway.invoke('/mcp/files', call, {
        accept: 'application/json, text/event-stream',
      })
      return (await response.json()) as Message
    } finally {
      await upstream[Symbol.asyncDispose]()
    }
  }

  for (const [coding, compress] of [
    ['gzip', gzipSync],
    ['deflate', deflateSync],
    ['br', brotli],
  ] as const) {
    it(`is cut where it becomes larger than a response may be: ${coding}`, async () => {
      const bomb = compress(Buffer.alloc(64 * 1024 * 1024, ' '))
      const refused = await responseTo(bomb, coding, 100_000)
      expect(refused).to.have.nested.property('error.code', 413)
    })
  }

  it('fails the call, with the reason, if it cannot be decoded', async () => {
    for (const [body, coding, reason] of [
      [Buffer.from('{}'), 'gzip', 'cannot be decoded'],
      [gzipSync('{"jsonrpc":"2.0","id":7,"result":{}}').subarray(0, 20), 'gzip', 'cannot be decoded'],
      [Buffer.from('{}'), 'zstd', 'the content coding zstd'],
    ] as const) {
      const refused = await responseTo(body, coding, 100_000)
      expect(refused).to.have.nested.property('error.data.message').that.contains(reason)
      expect(refused).to.have.nested.property('error.data.sent', true)
    }
  })
})
