import { mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect } from 'chai'
import { startTestGateway, type TestGateway } from '../../../support/gateway.js'
import { postStateless } from '../../../support/mcp-post.js'
import { connect, say } from '../../../support/stdio-target.js'

const entries = {
  filesystem: import.meta.resolve('@modelcontextprotocol/server-filesystem/dist/index.js'),
  memory: import.meta.resolve('@modelcontextprotocol/server-memory/dist/index.js'),
  everything: import.meta.resolve('@modelcontextprotocol/server-everything/dist/index.js'),
  thinking: import.meta.resolve('@modelcontextprotocol/server-sequential-thinking/dist/index.js'),
  time: import.meta.resolve('time-mcp'),
  toolplan: import.meta.resolve('mcp-sequentialthinking-tools/dist/index.js'),
} as const

function server(name: keyof typeof entries, ...args: string[]) {
  return { command: process.execPath, args: [fileURLToPath(entries[name]), ...args] }
}

describe('servers of the registry over stdio', function () {
  this.timeout(120_000)
  let home: string
  let gateway: TestGateway

  before(async () => {
    home = realpathSync(mkdtempSync(join(tmpdir(), 'svc-servers-')))
    writeFileSync(join(home, 'note.txt'), 'what the note says')
    gateway = await startTestGateway({
      targets: {
        filesystem: server('filesystem', home),
        memory: { ...server('memory'), env: { MEMORY_FILE_PATH: join(home, 'memory.json') } },
        everything: server('everything', 'stdio'),
        thinking: server('thinking'),
        time: server('time'),
        toolplan: server('toolplan'),
      },
    })
  })

  after(async () => {
    await gateway[Symbol.asyncDispose]()
    rmSync(home, { recursive: true })
  })

  /** The record of the latest call of that tool. */
  const recordOf = (tool: string) =>
    gateway.records().findLast((record) => String(Reflect.get(record, 'tool')).startsWith(`${tool}@`))

  it('filesystem reads a file of its directory, and no other', async () => {
    await using client = await connect(gateway, { server: 'filesystem' })
    expect(await say(client, 'read_text_file', { path: join(home, 'note.txt') })).to.equal(
      'what the note says',
    )
    expect(await say(client, 'read_text_file', { path: '/etc/passwd' })).to.include('Access denied')
    const version = client.getServerVersion()?.version
    expect(recordOf('read_text_file')).to.include({ server: `filesystem@${version}`, status: 'error' })
  })

  it('memory keeps a graph for all clients', async () => {
    await using writer = await connect(gateway, { server: 'memory' })
    await using reader = await connect(gateway, { server: 'memory' })
    const entities = [{ name: 'Ada', entityType: 'person', observations: ['wrote the first program'] }]
    await writer.callTool({ name: 'create_entities', arguments: { entities } })
    expect(await say(reader, 'search_nodes', { query: 'Ada' })).to.include('wrote the first program')
  })

  it('everything runs a long operation with progress, and reads resources', async () => {
    await using client = await connect(gateway, { server: 'everything' })
    const progress: number[] = []
    const call = { name: 'trigger-long-running-operation', arguments: { duration: 1, steps: 4 } }
    await client.callTool(call, undefined, { onprogress: (one) => void progress.push(one.progress) })
    expect(progress).to.deep.equal([1, 2, 3, 4])
    const { resources } = await client.listResources()
    const { contents } = await client.readResource({ uri: resources[0]?.uri ?? '' })
    expect(contents).to.have.lengthOf(1)
  })

  for (const [name, tool] of [
    ['thinking', 'sequentialthinking'],
    ['toolplan', 'sequentialthinking_tools'],
  ] as const) {
    it(`${name} counts thoughts`, async () => {
      await using client = await connect(gateway, { server: name })
      const args = { thought: 'one', thoughtNumber: 1, totalThoughts: 1, nextThoughtNeeded: false }
      const tools = (await client.listTools()).tools.map((one) => one.name)
      expect(tools).to.include(tool)
      const said = await say(client, tool, {
        ...args,
        thought_number: 1,
        total_thoughts: 1,
        next_thought_needed: false,
        available_mcp_tools: [],
      })
      expect(said).to.match(/thought_?number/i)
      expect(recordOf(tool)).to.include({ status: 'ok' })
    })
  }

  it('time returns the time', async () => {
    await using client = await connect(gateway, { server: 'time' })
    expect(await say(client, 'current_time', { format: 'YYYY-MM-DD' })).to.match(/\d{4}-\d{2}-\d{2}/)
    expect(recordOf('current_time')).to.include({ status: 'ok' })
  })

  it('are one server at /mcp, and calls are recorded under the name of their server', async () => {
    await using client = await connect(gateway, { server: '' })
    const names = (await client.listTools()).tools.map((tool) => tool.name)
    expect(names).to.include.members([
      'filesystem__read_text_file',
      'memory__search_nodes',
      'time__current_time',
    ])
    const said = await say(client, 'filesystem__read_text_file', { path: join(home, 'note.txt') })
    expect(said).to.equal('what the note says')
    expect(recordOf('read_text_file')).to.include({ status: 'ok' })
  })

  it('serve clients of 2026-07-28 and older clients alike', async () => {
    const meta = { 'io.modelcontextprotocol/clientInfo': { name: 'test', version: '1' } }
    for (const name of Object.keys(entries)) {
      const response = await postStateless(`${gateway.url}/mcp/${name}`, 'tools/list', {}, { meta })
      const { result } = (await response.json()) as {
        result: { tools: { name: string }[]; resultType: string }
      }
      await using client = await connect(gateway, { server: name })
      const { tools } = await client.listTools()
      expect(result.tools.map((tool) => tool.name)).to.deep.equal(tools.map((tool) => tool.name))
      expect(result.resultType).to.equal('complete')
    }
  })
})
