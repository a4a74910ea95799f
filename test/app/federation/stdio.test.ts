import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect } from 'chai'
import { z } from 'zod'
import { startTestGateway, type TestGateway } from '../../support/gateway.js'
import { connect1, connect2 } from '../../support/sdk-clients.js'
import { scriptedTarget } from '../../support/stdio-target.js'
import { TemporaryDir } from '../../support/temporary-dir.js'
import {
  type SessionServer,
  type StatelessServer,
  startSessionServer,
  startStatelessServer,
} from '../../support/tool-servers.js'

const entries = {
  memory: import.meta.resolve('@modelcontextprotocol/server-memory/dist/index.js'),
  everything: import.meta.resolve('@modelcontextprotocol/server-everything/dist/index.js'),
  thinking: import.meta.resolve('@modelcontextprotocol/server-sequential-thinking/dist/index.js'),
}

const command = (entry: string, ...args: string[]) => ({
  command: process.execPath,
  args: [fileURLToPath(entry), ...args],
})

const text = (value: string) => ({ content: [{ type: 'text' as const, text: value }] })

describe('three servers over stdio and two over HTTP at /mcp', function () {
  this.timeout(180_000)
  let home: string
  let notes: SessionServer
  let math: StatelessServer
  let gateway: TestGateway

  before(async () => {
    home = mkdtempSync(join(tmpdir(), 'svc-federation-'))
    notes = await startSessionServer('notes', (server) => {
      server.registerTool('read', {}, () => text('note'))
    })
    math = await startStatelessServer('math', (server) => {
      server.registerTool('add', { inputSchema: z.object({}) }, () => text('sum'))
    })
    gateway = await startTestGateway({
      targets: {
        memory: { ...command(entries.memory), env: { MEMORY_FILE_PATH: join(home, 'memory.json') } },
        everything: command(entries.everything, 'stdio'),
        thinking: command(entries.thinking),
        notes: notes.url,
        math: math.url,
      },
      entitlements: {
        default_plan: 'p',
        plans: {
          p: { allowlist: ['memory/read_graph', 'everything/echo', 'thinking/*', 'notes/*', 'math/*'] },
        },
        tenants: {},
      },
      federation: { list_timeout_ms: 60_000 },
    })
  })

  after(async () => {
    await gateway[Symbol.asyncDispose]()
    await notes[Symbol.asyncDispose]()
    await math[Symbol.asyncDispose]()
    rmSync(home, { recursive: true })
  })

  for (const [what, connect] of [
    ['SDK 1.x', connect1],
    ['SDK 2.x', connect2],
  ] as const) {
    it(`are one server for a client of ${what}, filtered by the policy, and recorded under their own names`, async () => {
      const client = await connect(`${gateway.url}/mcp`)
      const { tools } = await client.listTools()
      expect(tools.map(({ name }) => name)).to.deep.equal([
        'memory__read_graph',
        'everything__echo',
        'thinking__sequentialthinking',
        'notes__read',
        'math__add',
      ])
      const before = gateway.records().length
      const thought = { thought: 'so', thoughtNumber: 1, totalThoughts: 1, nextThoughtNeeded: false }
      for (const [name, args, expected] of [
        ['memory__read_graph', {}, 'entities'],
        ['everything__echo', { message: 'hi' }, 'Echo: hi'],
        ['thinking__sequentialthinking', thought, 'thoughtNumber'],
        ['notes__read', {}, 'note'],
        ['math__add', {}, 'sum'],
      ] as const) {
        const result = await client.callTool({ name, arguments: args })
        expect(JSON.stringify(result.content), name).to.include(expected)
      }
      const calls = gateway
        .records()
        .slice(before)
        .filter(({ mcp_method }) => mcp_method === 'tools/call')
      expect(
        calls.map(({ server, tool }) => [server, tool].map((named) => named.split('@')[0])),
      ).to.deep.equal([
        ['memory', 'read_graph'],
        ['everything', 'echo'],
        ['thinking', 'sequentialthinking'],
        ['notes', 'read'],
        ['math', 'add'],
      ])
      await client.close()
    })
  }
})

describe('a server over stdio that starts slowly', () => {
  it('is in the first list, after the time limit of servers that run', async () => {
    using home = new TemporaryDir()
    const begin = join(home.path, 'begin')
    const silent = createServer((_request, response) => {
      // The gateway has ended the attempt.
      response.once('close', () => writeFileSync(begin, ''))
    })
    await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve))
    const { port } = silent.address() as AddressInfo
    const gateway = await startTestGateway({
      targets: { slow: scriptedTarget(`wait=${begin}`), silent: `http://127.0.0.1:${port}/mcp` },
      federation: { list_timeout_ms: 1_000 },
    })
    try {
      await using client = await connect1(`${gateway.url}/mcp`)
      const { tools, _meta } = await client.listTools()
      expect(tools.map(({ name }) => name)).to.include('slow__echo')
      expect(_meta?.['svc/unavailable']).to.have.nested.property('[0].server', 'silent')
    } finally {
      await gateway[Symbol.asyncDispose]()
      await new Promise((resolve) => silent.close(resolve))
    }
  })
})
