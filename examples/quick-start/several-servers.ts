// The second part of the tour: five servers behind one URL, and the same through `svc stdio`.
import { strict as assert } from 'node:assert'
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { startGatewayServer } from 'svc-sdk/gateway'
import { svc, svcProgram } from './svc.js'
import { linesOf, logFiles, type Step, toolNames } from './tour.js'

const file = fileURLToPath(new URL('../several-servers.yaml', import.meta.url))

/** The tools that the policy allows, by their names on `/mcp`. */
const tools = [
  'archive__get_invoice',
  'billing__get_invoice',
  'billing__list_invoices',
  'files__list_directory',
  'files__read_text_file',
  'memory__create_entities',
  'memory__read_graph',
  'thinking__sequentialthinking',
]

const calls = [
  { name: 'billing__get_invoice', arguments: { invoice: 'INV-1001' }, shows: 'Harbour Bakery' },
  { name: 'archive__get_invoice', arguments: { invoice: 'INV-1003' }, shows: 'Okafor & Daughters' },
  {
    name: 'files__read_text_file',
    arguments: { path: 'policy.yaml' },
    shows: 'The policy of the example gateway',
  },
  { name: 'memory__read_graph', arguments: {}, shows: 'entities' },
  {
    name: 'thinking__sequentialthinking',
    arguments: { thought: 'one', thoughtNumber: 1, totalThoughts: 1, nextThoughtNeeded: false },
    shows: 'thoughtHistoryLength',
  },
] as const

export const severalServers: readonly Step[] = [
  {
    title:
      'A client with one URL sees the tools of five servers: two by HTTP, three that the gateway starts.',
    run: async ({ severalServers }) => {
      const listed = await withClient(await overHttp(severalServers), completeList)
      assert.deepEqual(listed, tools)
      return [listed.join(', ')]
    },
  },
  {
    title: 'It calls a tool of each. The records name the real servers and tools.',
    run: async ({ severalServers }) => callAll(await overHttp(severalServers), severalServers),
  },
  {
    title: 'A desktop client starts `svc stdio` with the same policy, and gets the same.',
    run: async ({ severalServers }) => {
      const { policyFile, keyFile, auditDir } = severalServers
      const args = [svcProgram, 'stdio', '--policy', policyFile]
      const transport = new StdioClientTransport({ command: process.execPath, args, stderr: 'ignore' })
      const lines = await callAll(await connected(transport), severalServers)
      const { exit, output } = await svc('audit', 'verify', auditDir, '--keys', keyFile)
      assert.equal(exit, 0, output)
      return [
        `$ npx svc-sdk stdio --policy ${policyFile}`,
        ...lines,
        `$ npx svc-sdk audit verify ${auditDir}`,
        output,
      ]
    },
  },
]

export interface SeveralServers {
  readonly url: string
  readonly policyFile: string
  readonly keyFile: string
  readonly auditDir: string
  close(): Promise<void>
}

/** Starts a gateway on the policy, in a directory of its own, with the real address of the tool server. */
export async function startSeveralServers(directory: string, toolServer: string): Promise<SeveralServers> {
  const own = join(directory, 'several-servers')
  const keyFile = join(own, '.svc/signing.key')
  const policyFile = join(own, 'policy.yaml')
  await mkdir(own)
  const usual = await readFile(file, 'utf8')
  const policyYaml = usual
    .replaceAll('http://127.0.0.1:8788/billing', toolServer)
    .replaceAll('cwd: .', `cwd: ${JSON.stringify(dirname(file))}`)
    .replace('/tmp/svc-quick-start-memory.json', JSON.stringify(join(own, 'memory.json')))
  await writeFile(policyFile, policyYaml)
  const { exit, output } = await svc('keys', 'generate', '--out', keyFile)
  assert.equal(exit, 0, output)
  const gateway = startGatewayServer({ policyYaml, policyFile, port: 0 })
  const { url } = await gateway.ready()
  const auditDir = join(own, '.svc/audit')
  return { url, policyFile, keyFile, auditDir, close: () => gateway.close() }
}

function overHttp({ url }: SeveralServers): Promise<Client> {
  return connected(new StreamableHTTPClientTransport(new URL(`${url}/mcp`)))
}

async function connected(transport: Parameters<Client['connect']>[0]): Promise<Client> {
  const client = new Client({ name: 'demo', version: '1.0.0' })
  await client.connect(transport)
  return client
}

async function withClient<T>(client: Client, use: (client: Client) => Promise<T>): Promise<T> {
  try {
    return await use(client)
  } finally {
    await client.close()
  }
}

/** Lists again while servers are missing, for ten seconds: the gateway does not wait for those that are still starting. */
async function completeList(client: Client): Promise<string[]> {
  for (let left = 50; ; left--) {
    const listed = await toolNames(client)
    if (listed.length >= tools.length || left === 0) return listed
    await setTimeout(200)
  }
}

/** Calls a tool of each server; the lines that are printed are those of the records. */
function callAll(client: Client, { auditDir }: SeveralServers): Promise<string[]> {
  return withClient(client, async () => {
    assert.deepEqual(await completeList(client), tools)
    const before = await calledIn(auditDir)
    for (const { shows, ...call } of calls) {
      const result = await client.callTool(call)
      assert.ok(
        JSON.stringify(result).includes(shows),
        `${call.name} responded with ${JSON.stringify(result)}`,
      )
    }
    const recorded = (await calledIn(auditDir)).slice(before.length)
    const expected = calls.map(({ name }) => name.replace('__', ' '))
    assert.deepEqual(
      recorded.map((line) => line.replaceAll(/@\S+/g, '')),
      expected,
    )
    return recorded
  })
}

/** Server and tool of each tool call on record. */
async function calledIn(auditDir: string): Promise<string[]> {
  const lines = (await Promise.all((await logFiles(auditDir)).map(linesOf))).flat()
  const records = lines.map((line): { server: string; tool: string; mcp_method?: string } => JSON.parse(line))
  return records
    .filter(({ mcp_method }) => mcp_method === 'tools/call')
    .map(({ server, tool }) => `${server} ${tool}`)
}
