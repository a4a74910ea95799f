import { canonicalize, sha256Hex } from '@svc/core/json'
import { expect } from 'chai'
import { temporaryDir } from '../../../support/temporary-dir.js'
import { decide, type Setup, startSetup } from '../gateway.js'
import { invoice, respondWith, type Tool } from './support.js'

describe('redact_output of a replayed response', () => {
  const key = { 'idempotency-key': 'k-1' }
  const dir = temporaryDir()

  /** The first call is allowed without obligations, the second with a redaction. */
  const startReplay = (tool: Tool, params: object): Promise<Setup> =>
    startSetup({
      runtime: (response, _call, count) =>
        decide(response, {
          action: 'allow',
          ...(count === 1 ? {} : { obligations: [{ type: 'redact_output', params }] }),
        }),
      tool,
      gateway: { dedupe: { dir: dir.path } },
    })

  const cases: readonly (readonly [string, Tool, object, string])[] = [
    ['JSON', respondWith(invoice), { paths: ['$.customer', '$.lines'] }, '"customer":"[redacted]"'],
    [
      'events, by paths',
      respondWith('data: {"email":"ada@example.com"}\n\n', 'text/event-stream'),
      { paths: ['$.email'] },
      'event: message\ndata: {"email":"[redacted]"}\n\n',
    ],
    [
      'events, by a pattern',
      respondWith('data: ada@exam\n\ndata: ple.com\n\n', 'text/event-stream'),
      { patterns: ['email'] },
      'data: "[redacted]"\n\n',
    ],
  ]
  for (const [what, tool, params, expected] of cases) {
    it(`follows the decision on the second call: ${what}`, async () => {
      await using setup = await startReplay(tool, params)
      expect(await (await setup.call({}, key)).text()).to.include('ada@exam')
      const replayed = await setup.call({}, key)
      expect(replayed.headers.get('x-dedupe')).to.equal('replay')
      const text = await replayed.text()
      expect(text).to.include(expected).and.not.include('ada')
      expect(setup.toolRequests).to.have.length(1)
      expect(setup.lastRecord().output_sha256).to.equal(sha256Hex(text))
    })
  }

  it('follows the decision on the second call: a stream of the MCP endpoint', async () => {
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
    await using setup = await startReplay(tool, { patterns: ['email'] })
    const callTool = async (id: number) => {
      const body = { jsonrpc: '2.0', id, method: 'tools/call', params: { name: 'echo', arguments: {} } }
      return (await setup.gateway.invoke('/mcp/files', body, key)).text()
    }
    expect(await callTool(1)).to.include('ada@example.com')
    const result = { content: [{ type: 'text', text: '[redacted]' }] }
    expect(JSON.parse(await callTool(2))).to.deep.equal({ jsonrpc: '2.0', id: 2, result })
    expect(setup.lastRecord()).to.include({
      dedupe: 'replay',
      output_sha256: sha256Hex(canonicalize(result)),
    })
  })
})
