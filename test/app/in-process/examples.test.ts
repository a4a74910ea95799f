import { execFile, spawn } from 'node:child_process'
import { cpSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { generateKeyFile } from '@svc/plugin-audit/log'
import { verifyLog } from '@svc/plugin-audit/tools'
import { expect } from 'chai'
import { PrintingProcess } from '../../support/printing-process.js'
import { refusalOf } from '../../support/rejection.js'
import { temporaryDir } from '../../support/temporary-dir.js'
import { startUpstream } from '../../support/upstream.js'

const folder = fileURLToPath(new URL('../../../../examples/in-process/', import.meta.url))
const program = (name: string) => join(folder, 'dist', `${name}.js`)

describe('examples/in-process', () => {
  let policy: string
  const home = temporaryDir()
  beforeEach(() => {
    policy = join(home.path, 'policy.yaml')
    cpSync(join(folder, 'policy.yaml'), policy)
    generateKeyFile(join(home.path, 'audit.key'))
  })

  async function expectLog(): Promise<void> {
    expect((await verifyLog(join(home.path, '.svc', 'audit'))).verdict).to.equal('intact')
  }

  it('governs an MCP server over stdio', async () => {
    const client = new Client({ name: 'test', version: '1' })
    await client.connect(
      new StdioClientTransport({ command: process.execPath, args: [program('mcp-server'), policy] }),
    )
    expect((await client.listTools()).tools.map(({ name }) => name)).to.deep.equal(['add'])
    const { content } = await client.callTool({ name: 'add', arguments: { a: 1, b: 2 } })
    expect(content).to.deep.equal([{ type: 'text', text: '3' }])
    const refused = await refusalOf(client.callTool({ name: 'erase' }))
    expect(refused).to.include({ denial_reason: 'tool_not_in_allowlist' })
    await client.close()
    await expectLog()
  })

  it('governs an MCP server for each HTTP request, and counts the calls of all', async () => {
    const limited = readFileSync(policy, 'utf8').replace('calls_per_day: 1000', 'calls_per_day: 2')
    writeFileSync(policy, limited)
    await using server = new PrintingProcess(
      spawn(process.execPath, [program('mcp-http-server'), policy], {
        env: { ...process.env, PORT: '0' },
        stdio: ['ignore', 'pipe', 'inherit'],
      }),
    )
    const url = await server.prints(/^(http:\S+)$/m)
    const client = new Client({ name: 'test', version: '1' })
    await client.connect(new StreamableHTTPClientTransport(new URL(url)) as never)
    expect((await client.listTools()).tools.map(({ name }) => name)).to.deep.equal(['add'])
    const add = { name: 'add', arguments: { a: 1, b: 2 } }
    for (let count = 0; count < 2; count++)
      expect((await client.callTool(add)).content).to.deep.equal([{ type: 'text', text: '3' }])
    expect(await refusalOf(client.callTool(add))).to.include({ error: 'QUOTA_EXCEEDED' })
    await client.close()
    server.kill('SIGTERM')
    await server.exit
    await expectLog()
  })

  it('governs the functions of an agent', async () => {
    const { stdout } = await promisify(execFile)(process.execPath, [program('agent'), policy])
    const [first, second, third] = stdout.split('\n')
    expect(first).to.equal('divide: 2')
    expect(second).to.equal('divide failed: RangeError: division by zero')
    expect(third).to.match(/^erase was refused: TOOL_NOT_ALLOWED \(tool_not_in_allowlist\): /)
    await expectLog()
  })

  it('has a gateway inside an Express app', async () => {
    await using upstream = await startUpstream()
    await using app = new PrintingProcess(
      spawn(process.execPath, [program('express-app'), policy], {
        env: { ...process.env, PORT: '0', CALC_URL: upstream.url },
        stdio: ['ignore', 'pipe', 'inherit'],
      }),
    )
    const url = await app.prints(/^(http:\S+)$/m)
    expect(await (await fetch(`${url}/hello`)).text()).to.equal('hello')
    const call = (tool: string) =>
      fetch(`${url}/agents/mcp/calc/${tool}@1`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: '{}',
      })
    expect((await call('add')).status).to.equal(200)
    expect((await call('erase')).status).to.equal(403)
    app.kill('SIGTERM')
    await app.exit
    await expectLog()
  })
})
