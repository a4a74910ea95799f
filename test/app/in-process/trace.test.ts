import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js'
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js'
import { LocalDevSigner, SvcAppender } from '@svc/plugin-audit/log'
import { expect } from 'chai'
import { governed } from 'svc-sdk'
import { auditCommand } from 'svc-sdk/internal/cli/audit'
import { instrument } from 'svc-sdk/mcp'
import { runCommand } from '../../support/command.js'
import { startTestGateway } from '../../support/gateway.js'
import { temporaryDir } from '../../support/temporary-dir.js'
import { FunctionsRig } from './rig.js'

/** An instrumented MCP server over HTTP, with a log of its own. */
async function startServer(dir: string) {
  const signer = LocalDevSigner.fromSeed(new Uint8Array(32).fill(3))
  const appender = new SvcAppender({ config: { dir, retentionDays: 9999 }, signer })
  const server = new McpServer({ name: 'weather', version: '1.0.0' })
  server.registerTool('forecast', {}, () => ({ content: [{ type: 'text', text: 'rain' }] }))
  const instrumented = instrument(server, { appender, tenant: 'acme' })
  const transport = new StreamableHTTPServerTransport({ sessionIdGenerator: () => randomUUID() })
  await server.connect(transport as Parameters<McpServer['connect']>[0])
  const http = createServer((request, response) => void transport.handleRequest(request, response))
  http.listen(0, '127.0.0.1')
  await once(http, 'listening')
  return {
    url: `http://127.0.0.1:${(http.address() as AddressInfo).port}/mcp`,
    async [Symbol.asyncDispose]() {
      await server.close()
      await instrumented.close()
      await appender.close()
      http.closeAllConnections()
      http.close()
      await once(http, 'close')
    },
  }
}

describe('one trace over a function, a gateway and an MCP server', () => {
  const home = temporaryDir()

  it('is printed as one tree of three logs', async () => {
    const dir = join(home.path, 'server')
    await using server = await startServer(dir)
    await using gateway = await startTestGateway({ targets: { weather: server.url } })
    await using agent = new FunctionsRig()
    const traceId = '4bf92f3577b34da6a3ce929d0e0e4736'
    const plan = governed(
      agent.pipeline,
      { server: 'agent', name: 'plan', version: '1' },
      async (_args: object, { traceparent }) => {
        const client = new Client({ name: 'agent', version: '1' })
        const url = new URL(`${gateway.url}/mcp/weather`)
        const transport = new StreamableHTTPClientTransport(url, {
          requestInit: { headers: { traceparent } },
        })
        await client.connect(transport as Parameters<Client['connect']>[0])
        const { content } = await client.callTool({ name: 'forecast' })
        await client.close()
        return content
      },
    )
    await plan({}, { headers: { traceparent: `00-${traceId}-00f067aa0ba902b7-01` } })

    const shown = await runCommand(auditCommand, ['show', agent.dir, gateway.dir, dir, '--trace', traceId])
    expect(shown.code, shown.err).to.equal(0)
    const lines = shown.out.split('\n').filter((line) => /plan@1|forecast@1\.0\.0/.test(line))
    const short = lines.map((line) => {
      const indent = /^(?:[│ ] {2})*[├└]─ |^/.exec(line)?.[0] ?? ''
      return `${'>'.repeat(indent.length / 3)}${line.slice(indent.length).split('  ')[0]}`
    })
    expect(short).to.deep.equal([
      'agent@1/plan@1',
      '>weather@1.0.0/forecast@1.0.0',
      '>>weather@1.0.0/forecast@1.0.0',
    ])
  })
})
