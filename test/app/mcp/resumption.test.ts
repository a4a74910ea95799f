import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { canonicalize, sha256Hex } from '@svc/core/json'
import type { SignedEnvelope } from '@svc/plugin-audit/log'
import { expect } from 'chai'
import type { GatewaySettings } from 'svc-sdk'
import { startTestGateway, type TestGateway } from '../../support/gateway.js'
import { postMcp } from '../../support/mcp-post.js'
import { ofSuite } from '../../support/parts.js'
import { startRedis } from '../../support/redis.js'
import { type ResumableServer, startResumableServer } from '../../support/resumable-server.js'
import { signalled } from '../../support/signalled.js'

const reconnectionOptions = {
  initialReconnectionDelay: 10,
  maxReconnectionDelay: 100,
  reconnectionDelayGrowFactor: 1.5,
  maxRetries: 20,
}

/** A client whose requests go to each gateway in turn. */
async function connect(
  gateways: readonly { url: string }[],
  path = '/mcp/files',
): Promise<Client & AsyncDisposable> {
  let sent = 0
  const [first] = gateways
  const transport = new StreamableHTTPClientTransport(new URL(`${first?.url}${path}`), {
    reconnectionOptions,
    fetch: (url, init) => {
      const { pathname } = new URL(url)
      return fetch(`${gateways[sent++ % gateways.length]?.url}${pathname}`, init)
    },
  })
  const client = new Client({ name: 'test', version: '1.0.0' })
  await client.connect(transport)
  return Object.assign(client, { [Symbol.asyncDispose]: () => client.close() })
}

const content = [{ type: 'text', text: 'the report' }]
const report = (more: object = {}) => ({ name: 'report', arguments: { text: 'the report', ...more } })
const digest = sha256Hex(canonicalize({ content }))

const recordsOf = (gateways: readonly TestGateway[], method: string): SignedEnvelope[] =>
  gateways.flatMap((gateway) => gateway.records().filter(({ mcp_method }) => mcp_method === method))

const callReport = { jsonrpc: '2.0', id: 7, method: 'tools/call', params: report() }

/** Sessions that gateways without a shared store share. */
const oneKey: GatewaySettings = {
  server: { sessionKeyRef: 'env:SESSION_KEY' },
  env: { SESSION_KEY: 'a key of the test that is long enough' },
}

const withoutReport = {
  default_plan: 'free',
  plans: { free: {} },
  tenants: { acme: { plan: 'free', allowlist: ['files/other'] } },
}

function post(
  { url }: { url: string },
  message: object,
  headers: Record<string, string> = {},
  signal: AbortSignal | null = null,
): Promise<Response> {
  return postMcp(`${url}/mcp/files`, message, headers, signal)
}

/** The headers of a new session. */
async function session(gateway: { url: string }): Promise<Record<string, string>> {
  const clientInfo = { name: 'test', version: '1.0.0' }
  const params = { protocolVersion: '2025-11-25', capabilities: {}, clientInfo }
  const begun = await post(gateway, { jsonrpc: '2.0', id: 0, method: 'initialize', params })
  await begun.text()
  const headers = {
    'mcp-session-id': String(begun.headers.get('mcp-session-id')),
    'mcp-protocol-version': '2025-11-25',
  }
  await post(gateway, { jsonrpc: '2.0', method: 'notifications/initialized' }, headers)
  return headers
}

/** The first match in a stream, which is then cancelled. */
async function matchIn({ body }: Response, pattern: RegExp): Promise<RegExpExecArray> {
  let text = ''
  for await (const piece of body?.pipeThrough(new TextDecoderStream()) ?? []) {
    text += piece
    const found = pattern.exec(text)
    if (found !== null) return found
  }
  throw new Error(`the stream has no ${pattern}: ${text}`)
}

async function firstEventId(response: Response): Promise<string> {
  return String((await matchIn(response, /^id: (.*)\n/m))[1])
}

/** The response on the resumed stream, which the server refuses until the other stream has ended. */
async function resumed(gateway: { url: string }, headers: Record<string, string>): Promise<string> {
  for (;;) {
    const accept = 'text/event-stream'
    const response = await fetch(`${gateway.url}/mcp/files`, { headers: { accept, ...headers } })
    if (response.status === 200) return (await matchIn(response, /^data: .*"id":7.*\n/m))[0]
    if (response.status !== 409) throw new Error(`${response.status}: ${await response.text()}`)
    await response.text()
  }
}

describe('a call of an MCP tool whose client resumes its stream', function () {
  this.timeout(60_000)

  const redis = ofSuite(() => startRedis())

  const shared = (): GatewaySettings => ({ quotas: { adapter: 'redis', redisUrl: redis.url } })

  const limited = (): GatewaySettings => ({ ...shared(), security: { limits: { max_payload_kb: 1 } } })

  async function withGateways(
    settings: readonly GatewaySettings[],
    use: (gateways: readonly TestGateway[], server: ResumableServer) => Promise<void>,
  ): Promise<void> {
    await using server = await startResumableServer()
    const gateways: TestGateway[] = []
    try {
      for (const each of settings) {
        gateways.push(await startTestGateway({ targets: { files: server.url }, ...each }))
      }
      await use(gateways, server)
    } finally {
      for (const gateway of gateways) await gateway[Symbol.asyncDispose]()
    }
  }

  for (const [where, settings] of [
    ['at one gateway', () => [{}]],
    ['at two gateways in turn, which share a store', () => [shared(), shared()]],
  ] as const) {
    describe(where, () => {
      it('has its result if the server ended the stream to be polled', () =>
        withGateways(settings(), async (gateways, server) => {
          await using client = await connect(gateways)
          const response = await client.callTool(report({ poll: true }))
          expect(response.content).to.deep.equal(content)
          expect(server.resumptions).to.have.length(1)
          checkRecords(gateways)
        }))

      it('has its result if the connection to the server broke', () =>
        withGateways(settings(), async (gateways, server) => {
          await using client = await connect(gateways)
          const begun = signalled<string>()
          const response = client.callTool(report(), undefined, { onresumptiontoken: begun.resolve })
          await begun.happened
          server.cut()
          expect((await response).content).to.deep.equal(content)
          checkRecords(gateways)
        }))
    })
  }

  it('has its result from one of several servers at /mcp', () =>
    withGateways([{}], async (gateways) => {
      await using client = await connect(gateways, '/mcp')
      const response = await client.callTool({ ...report({ poll: true }), name: 'files__report' })
      expect(response.content).to.deep.equal(content)
      checkRecords(gateways)
    }))

  it('has its result at another gateway', () =>
    withGateways([shared(), shared()], async ([first, second], server) => {
      if (first === undefined || second === undefined) throw new Error('no gateways')
      const headers = await session(first)
      const leaving = new AbortController()
      const response = await post(first, callReport, headers, leaving.signal)
      const last = await firstEventId(response)
      leaving.abort()
      const text = await resumed(second, { ...headers, 'last-event-id': last })
      expect(text).to.include('the report')
      expect(server.resumptions).to.deep.equal([last])
      checkRecords([first, second])
    }))

  it('gets an error from a gateway that does not know the call, and logs it', () =>
    withGateways([oneKey, oneKey], async ([first, second]) => {
      if (first === undefined || second === undefined) throw new Error('no gateways')
      const headers = await session(first)
      const last = await firstEventId(
        await post(first, { ...callReport, params: report({ poll: true }) }, headers),
      )
      const text = await resumed(second, { ...headers, 'last-event-id': last })
      expect(text).to.include('The response to this request was withheld.').and.not.include('the report')
      const [record, ...others] = second.records().filter(({ tool }) => tool.startsWith('mcp/'))
      expect(others).to.deep.equal([])
      expect(record).to.include({ tool: 'mcp/response_withheld@1', error: 'OUTCOME_UNRECORDED' })
      expect(record?.risk_tags).to.deep.equal(['response_without_request'])
    }))

  it('gets an error if the policy no longer allows the tool', () =>
    withGateways([{}], async ([gateway]) => {
      if (gateway === undefined) throw new Error('no gateway')
      const headers = await session(gateway)
      const last = await firstEventId(
        await post(gateway, { ...callReport, params: report({ poll: true }) }, headers),
      )
      await gateway.handle.reload({ entitlements: withoutReport })
      const text = await resumed(gateway, { ...headers, 'last-event-id': last })
      expect(text).to.include('"error":"TOOL_NOT_ALLOWED"').and.not.include('the report')
      const [, late] = recordsOf([gateway], 'tools/call')
      expect(late).to.include({ error: 'TOOL_NOT_ALLOWED', output_sha256: null })
      expect(late?.policy.decision).to.equal('deny')
    }))

  it('gets an error if its result is larger than the policy allows, and is withheld from then on', () =>
    withGateways([limited(), limited()], async ([gateway, other]) => {
      if (gateway === undefined || other === undefined) throw new Error('no gateways')
      const headers = await session(gateway)
      const params = { name: 'report', arguments: { text: 'x', poll: true, times: 2000 } }
      const last = await firstEventId(await post(gateway, { ...callReport, params }, headers))
      const again = { ...headers, 'last-event-id': last }
      expect(await resumed(gateway, again))
        .to.include('"error":"PAYLOAD_TOO_LARGE"')
        .and.not.include('xx')
      const [, late] = recordsOf([gateway], 'tools/call')
      expect(late).to.include({ error: 'PAYLOAD_TOO_LARGE', output_sha256: null })
      expect(await resumed(other, again)).to.include('The response to this request was withheld.')
    }))

  /** The record of the call, without an outcome, and the record of the response, which it causes. */
  function checkRecords(gateways: readonly TestGateway[]): void {
    const [call, response, ...others] = recordsOf(gateways, 'tools/call').sort(
      (one, other) => Number(one.status === 'ok') - Number(other.status === 'ok'),
    )
    expect(others).to.deep.equal([])
    expect(call).to.include({ status: 'error', error: 'OUTCOME_UNKNOWN', output_sha256: null })
    expect(response).to.include({
      status: 'ok',
      output_sha256: digest,
      trace_id: call?.trace_id,
      cause_trace_id: call?.trace_id,
      cause_span_id: call?.span_id,
      input_sha256: call?.input_sha256,
      tool: 'report@3.1.0',
      server: call?.server,
      rpc_id: call?.rpc_id,
      mcp_session_sha256: call?.mcp_session_sha256,
    })
    expect(response?.span_id).to.not.equal(call?.span_id)
    expect(response?.policy.decision).to.equal('allow')
  }
})
