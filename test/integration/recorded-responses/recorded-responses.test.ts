// The record hashes the value that a client's parser yields, over every face.
import { createServer } from 'node:http'
import { canonicalize, sha256Hex } from '@svc/core/json'
import type { SignedEnvelope } from '@svc/plugin-audit/log'
import { expect } from 'chai'
import type { GatewaySettings } from 'svc-sdk'
import { recordingTo, startTestGateway, type TestGateway } from '../../support/gateway.js'
import { listenOnLoopback } from '../../support/loopback.js'
import { propertyRuns } from '../../support/property-runs.js'
import { scriptedTarget, until } from '../../support/stdio-target.js'
import { type Face, governedFace, invokeFace, mcpFace, stdioArguments } from './faces.js'
import { piecesOf, seed, Writer } from './writing.js'

const names = [
  'invoke',
  'invoke with events',
  'invoke at an MCP server',
  'A2A',
  'MCP',
  'MCP with events',
  'several servers',
  'several servers with events',
  'a server over stdio',
  'governServer',
] as const

describe('the record of a response', () => {
  const writer = new Writer()
  const records: SignedEnvelope[] = []
  const faces = new Map<(typeof names)[number], Face>()
  let gateway: TestGateway
  let upstream: Awaited<ReturnType<typeof listenOnLoopback>>

  before(async () => {
    upstream = await listenOnLoopback(writingServer(writer))
    const options = {
      quotas: { adapter: 'memory' },
      entitlements: 'open',
      authn: { allowUnauthenticated: true },
      tenant: 'acme',
      ...recordingTo({
        append: async (envelope) => {
          const { mcp_method: method = 'tools/call' } = envelope as SignedEnvelope
          if (method === 'tools/call') records.push(envelope as SignedEnvelope)
        },
      }),
    } satisfies GatewaySettings
    const plain = `${upstream.url}/plain`
    const events = `${upstream.url}/events`
    gateway = await startTestGateway({
      ...options,
      targets: { plain, events, tools: `mcp+${plain}`, stdio: scriptedTarget() },
      federation: { groups: { one: ['plain'], two: ['events'] } },
    })
    const { url } = gateway
    const inA2a = { to: 'plain', toolAtVersion: 'tool@1.0.0', args: {} }
    const several = (group: string, server: string) =>
      mcpFace(`${url}/mcp/${group}`, { name: `${server}__tool` })
    faces
      .set('invoke', invokeFace(`${url}/mcp/plain/tool@1.0.0`))
      .set('invoke with events', invokeFace(`${url}/mcp/events/tool@1.0.0`))
      .set('invoke at an MCP server', invokeFace(`${url}/mcp/tools/tool@1.0.0`))
      .set('A2A', invokeFace(`${url}/a2a/invoke`, inA2a))
      .set('MCP', mcpFace(`${url}/mcp/plain`))
      .set('MCP with events', mcpFace(`${url}/mcp/events`))
      .set('several servers', several('one', 'plain'))
      .set('several servers with events', several('two', 'events'))
      .set(
        'a server over stdio',
        mcpFace(`${url}/mcp/stdio`, { name: 'write', argumentsOf: () => stdioArguments(writer) }),
      )
      .set('governServer', governedFace(options, writer))
  })

  after(async () => {
    for (const face of faces.values()) await face.close?.()
    await gateway[Symbol.asyncDispose]()
    await upstream[Symbol.asyncDispose]()
  })

  for (const name of names) {
    it(`hashes what a client reads: ${name}`, async () => {
      const face = faces.get(name)
      await face?.open?.()
      for (let run = 0; run < propertyRuns(60); run++) {
        writer.begin(run)
        records.length = 0
        const got = await face?.call(run)
        const { written } = writer
        await until(() => records.length >= written.length)
        const about = `SVC_SEED=${seed}, run ${run}: ${JSON.stringify(written)} became ${JSON.stringify(got)}`
        const recorded = records.map(({ output_sha256 }) => output_sha256)
        if (got === undefined || 'bytes' in got) {
          expect(recorded, about).to.deep.equal([sha256Hex(got?.bytes ?? '')])
          continue
        }
        const hashes = got.results.map((result) => sha256Hex(canonicalize(result)))
        expect(recorded, about).to.have.members(hashes)
        expect(got.results, about).to.have.deep.members(written.map(({ result }) => result))
      }
    })
  }
})

/** Over MCP and the invoke protocol, with events under `/events`. */
function writingServer(writer: Writer) {
  return createServer((message, response) => {
    const parts: Buffer[] = []
    message.on('data', (part: Buffer) => parts.push(part))
    message.once('end', () => {
      const text = Buffer.concat(parts).toString()
      const { id, method } = (text === '' ? {} : JSON.parse(text)) as { id?: unknown; method?: string }
      const isInvoke = message.url?.includes('/invoke/') === true
      if (isInvoke || method === 'tools/call') {
        const isEvent = message.url?.startsWith('/events') === true
        response.writeHead(200, { 'content-type': isEvent ? 'text/event-stream' : 'application/json' })
        for (const piece of piecesOf(writer.write(isInvoke ? undefined : id), isEvent)) response.write(piece)
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
}
