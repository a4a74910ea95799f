// What a client's parser yields is what the record hashes: over every face, for texts with every separator and control
// character, written in every way and split at any byte.
import { createServer } from 'node:http'
import { type Appender, bind, tokens } from '@svc/core'
import { canonicalize, sha256Hex } from '@svc/core/json'
import type { SignedEnvelope } from '@svc/plugin-audit/log'
import { expect } from 'chai'
import { createParser } from 'eventsource-parser'
import { Chance } from '../support/chance.js'
import { startTestGateway, type TestGateway } from '../support/gateway.js'
import { listenOnLoopback } from '../support/loopback.js'
import { propertyRuns } from '../support/property-runs.js'

const seed = Number(process.env['SVC_SEED'] ?? 1)

/** What some reader takes for the end of a line, or drops. */
const separators: readonly [string, ...string[]] = [
  ...(['\n', '\r', '\r\n', '\n\n', '\u2028', '\u2029', '\u0085', '\v', '\f', '\0'] as const),
  ...(['\u001f', '\u001e', '\u007f', '\ufeff', '\u00a0', '\u200b', '\u202e', '\t', ' '] as const),
]
const fields: readonly [string, ...string[]] = [
  ...([
    'id: 1',
    'id:',
    'data: x',
    'event: y',
    'retry: 1',
    ': z',
    '"',
    '\\',
    '{}',
    'ä',
    '\u{1f600}',
    'a',
  ] as const),
]

/** How the upstream writes one result. */
interface Writing {
  readonly result: object
  /** The JSON of the message around the result. */
  readonly json: string
  readonly lineEnd: string
  /** The lines of an event before its data. */
  readonly before: readonly string[]
  readonly hasMark: boolean
  readonly cuts: readonly number[]
}

function writingOf(chance: Chance, id: unknown): Writing {
  const text = Array.from(
    { length: chance.int(0, 12) },
    () => chance.pick(separators) + chance.pick(fields),
  ).join('')
  const result = {
    content: [{ type: 'text', text }],
    [chance.pick(['structuredContent', 'extra'])]: { [text]: 1 },
  }
  const lineEnd = chance.pick(['\n', '\r', '\r\n'])
  const message = id === undefined ? result : { jsonrpc: '2.0', id, result }
  const json = JSON.stringify(message, null, chance.pick([0, 0, 2]))
  return {
    result: id === undefined ? message : result,
    json: chance.pick([json, json, json, escaped(json)]),
    lineEnd,
    before: Array.from({ length: Math.max(0, chance.int(-2, 3)) }, () =>
      chance.pick(['id: 7', 'id:8', 'id:', 'id: a\u2028b', 'event: message', 'retry: 5', 'note: x', ': hi']),
    ),
    hasMark: chance.int(0, 4) === 0,
    cuts: Array.from({ length: chance.int(0, 4) }, () => chance.int(0, 400)),
  }
}

/** The same JSON without a character outside ASCII. */
function escaped(json: string): string {
  return json.replaceAll(/[^\n -~]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`)
}

/** The body of the response, in pieces. */
function piecesOf({ json, lineEnd, before, hasMark, cuts }: Writing, isEvent: boolean): Buffer[] {
  const data = json.split('\n').map((line) => `data: ${line}`)
  const text = isEvent ? `${hasMark ? '\ufeff' : ''}${[...before, ...data, '', ''].join(lineEnd)}` : json
  const whole = Buffer.from(text)
  const at = [0, ...cuts.map((cut) => Math.min(cut, whole.length)).sort((a, b) => a - b), whole.length]
  return at.slice(1).map((end, index) => whole.subarray(at[index], end))
}

const faces: Readonly<
  Record<string, { readonly path: string; readonly isEvent: boolean; readonly isMcp: boolean }>
> = {
  invoke: { path: '/mcp/plain/tool@1.0.0', isEvent: false, isMcp: false },
  'invoke with events': { path: '/mcp/events/tool@1.0.0', isEvent: true, isMcp: false },
  MCP: { path: '/mcp/plain', isEvent: false, isMcp: true },
  'MCP with events': { path: '/mcp/events', isEvent: true, isMcp: true },
  'several servers': { path: '/mcp', isEvent: false, isMcp: true },
  'several servers with events': { path: '/mcp', isEvent: true, isMcp: true },
}

describe('the record of a response', () => {
  let gateway: TestGateway
  let upstream: Awaited<ReturnType<typeof listenOnLoopback>>
  let next: { writing: (id: unknown) => Writing; isEvent: boolean } | undefined
  const records = new Map<string, SignedEnvelope[]>()

  before(async () => {
    const server = createServer((message, response) => {
      const pieces: Buffer[] = []
      message.on('data', (piece: Buffer) => pieces.push(piece))
      message.once('end', () => {
        const text = Buffer.concat(pieces).toString()
        const { id, method } = (text === '' ? {} : JSON.parse(text)) as { id?: unknown; method?: string }
        if (
          next !== undefined &&
          (method === 'tools/call' || method === undefined) &&
          message.method === 'POST'
        ) {
          const type = next.isEvent ? 'text/event-stream' : 'application/json'
          response.writeHead(200, { 'content-type': type })
          for (const piece of piecesOf(next.writing(method === undefined ? undefined : id), next.isEvent)) {
            response.write(piece)
          }
          response.end()
        } else if (id === undefined) response.writeHead(message.method === 'POST' ? 202 : 405).end()
        else {
          const serverInfo = { name: 'writer', version: '1.0.0' }
          const described = { protocolVersion: '2025-11-25', capabilities: { tools: {} }, serverInfo }
          const result = method === 'initialize' ? described : { tools: [{ name: 'tool', inputSchema: {} }] }
          response.writeHead(200, { 'content-type': 'application/json', 'mcp-session-id': 's' })
          response.end(JSON.stringify({ jsonrpc: '2.0', id, result }))
        }
      })
    })
    upstream = await listenOnLoopback(server)
    const append: Appender['append'] = async (envelope) => {
      const trace = String(Reflect.get(envelope, 'trace_id'))
      records.set(trace, [...(records.get(trace) ?? []), envelope as SignedEnvelope])
    }
    gateway = await startTestGateway({
      targets: { plain: upstream.url, events: upstream.url },
      federation: { servers: ['plain'] },
      audit: { gatewayName: 'gw', gatewayVersion: '1.0.0' },
      configure: (container) =>
        bind<Appender>(container, tokens.SvcAppender, { useValue: { append } as Appender }),
    })
  })

  after(async () => {
    await gateway[Symbol.asyncDispose]()
    await upstream[Symbol.asyncDispose]()
  })

  for (const [face, { path, isEvent, isMcp }] of Object.entries(faces)) {
    it(`hashes what a client reads: ${face}`, async () => {
      const headers: Record<string, string> = {
        'content-type': 'application/json',
        accept: 'application/json, text/event-stream',
      }
      const post = (body: unknown): Promise<Response> =>
        fetch(`${gateway.url}${path}`, { method: 'POST', headers, body: JSON.stringify(body) })
      if (isMcp) {
        const params = {
          protocolVersion: '2025-11-25',
          capabilities: {},
          clientInfo: { name: 'c', version: '1' },
        }
        const begun = await post({ jsonrpc: '2.0', id: 0, method: 'initialize', params })
        headers['mcp-session-id'] = begun.headers.get('mcp-session-id') ?? ''
        await begun.text()
      }
      const name = path === '/mcp' ? 'plain__tool' : 'tool'
      for (let run = 0; run < propertyRuns(60); run++) {
        const chance = new Chance(seed * 1_000_003 + run)
        let sent: Writing | undefined
        next = {
          isEvent,
          writing: (id) => {
            sent = writingOf(chance, id)
            return sent
          },
        }
        const params = { name, arguments: {} }
        const response = await post(isMcp ? { jsonrpc: '2.0', id: run, method: 'tools/call', params } : {})
        const bytes = Buffer.from(await response.arrayBuffer())
        next = undefined
        const about = `SVC_SEED=${seed}, run ${run}: ${JSON.stringify(sent)} became ${JSON.stringify(bytes.toString())}`
        const [record, ...others] = records.get(response.headers.get('x-trace-id') ?? '') ?? []
        expect(others, about).to.have.length(0)
        if (!isMcp) {
          expect(record?.['output_sha256'], about).to.equal(sha256Hex(bytes))
          continue
        }
        const { result } = JSON.parse(isEvent ? dataIn(bytes, about) : bytes.toString()) as {
          result?: unknown
        }
        expect(record?.['output_sha256'], about).to.equal(sha256Hex(canonicalize(result)))
        expect(result, about).to.deep.equal(sent?.result)
      }
    })
  }
})

/** The data of the only event for which a client listens. */
function dataIn(bytes: Uint8Array, about: string): string {
  const found: string[] = []
  const parser = createParser({
    onEvent: ({ event = 'message', data }) => {
      if (event === 'message' && data !== '') found.push(data)
    },
  })
  // This parser waits for what follows a CR at the end.
  parser.feed(`${new TextDecoder('utf-8').decode(bytes)}\n`)
  expect(found, about).to.have.length(1)
  return found[0] ?? ''
}
