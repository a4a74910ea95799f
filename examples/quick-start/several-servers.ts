// The steps of the tour with several MCP servers: a client has one URL, or one command, for all that a policy lets it use.
import { strict as assert } from 'node:assert'
import { cp, mkdir, readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { startExampleGateway } from './gateway.js'
import { svcProgram } from './svc.js'
import { startToolServer } from './tool-server.js'
import type { Step, Tour } from './tour.js'

const stdioServer = fileURLToPath(new URL('./stdio-server.js', import.meta.url))

/** Two servers over HTTP and three that are commands, of which the policy hides a part. */
function policyOf(billing: string, archive: string): string {
  const command = (name: string): string =>
    JSON.stringify({ command: process.execPath, args: [stdioServer, name] })
  return `tenant: demo
port: 0
targets:
  billing: ${billing}
  archive: ${archive}
  clock: ${command('clock')}
  dice: ${command('dice')}
  notes: ${command('notes')}
federation: { list_timeout_ms: 30000 }
audit: { gatewayName: demo, gatewayVersion: 1.0.0, signer: { keyRef: file://.svc/signing.key } }
quotas: { adapter: memory }
authn: { allowUnauthenticated: true }
entitlements:
  default_plan: free
  plans: { free: { allowlist: [] } }
  tenants:
    demo: { plan: free, allowlist: [get_invoice, clock/*, dice/*, notes/read] }
`
}

const calls: readonly (readonly [server: string, tool: string, args?: Record<string, string>])[] = [
  ['archive', 'get_invoice', { invoice: 'INV-1001' }],
  ['billing', 'get_invoice', { invoice: 'INV-1003' }],
  ['clock', 'now'],
  ['dice', 'roll'],
  ['notes', 'read'],
]

export const severalServers: readonly Step[] = [
  {
    title:
      'Another gateway has five servers, three of which it starts itself. The client has one URL for all of them.',
    run: (tour) =>
      withPolicy(tour, 'by-url', async (policyYaml, policyFile) => {
        const { handle, url } = await startExampleGateway(policyYaml, policyFile, 0)
        try {
          return await useServers(new StreamableHTTPClientTransport(new URL(`${url}/mcp`)))
        } finally {
          await handle.close()
        }
      }),
  },
  {
    title: 'A client that starts its servers itself has one command for all of them: svc stdio.',
    run: (tour) =>
      withPolicy(tour, 'by-command', async (_policyYaml, policyFile) => {
        const args = [svcProgram, 'stdio', '--policy', policyFile, '--log', `${policyFile}.log`]
        return useServers(new StdioClientTransport({ command: process.execPath, args }))
      }),
  },
]

/** Runs `use` with a policy in a directory of its own, and checks the records of its calls. */
async function withPolicy(
  { tools, directory }: Tour,
  name: string,
  use: (policyYaml: string, policyFile: string) => Promise<string[]>,
): Promise<string[]> {
  const home = join(directory, name)
  const archive = await startToolServer()
  try {
    const policyYaml = policyOf(tools.url, archive.url)
    await mkdir(join(home, '.svc'), { recursive: true })
    const policyFile = join(home, 'policy.yaml')
    await writeFile(policyFile, policyYaml)
    await cp(join(directory, '.svc', 'signing.key'), join(home, '.svc', 'signing.key'))
    const lines = await use(policyYaml, policyFile)
    const recorded = await recordedCalls(join(home, '.svc', 'audit'))
    assert.deepEqual(
      recorded,
      calls.map(([server, tool]) => `${server}@1.0.0 ${tool}@1.0.0`),
    )
    return [...lines, `on record: ${recorded.join(', ')}`]
  } finally {
    await archive.close()
  }
}

/** Lists the tools and calls one of each server. */
async function useServers(
  transport: StdioClientTransport | StreamableHTTPClientTransport,
): Promise<string[]> {
  const client = new Client({ name: 'demo', version: '1.0.0' })
  await client.connect(transport)
  try {
    const { tools } = await client.listTools()
    const names = tools.map(({ name }) => name).sort()
    assert.deepEqual(
      names,
      calls.map(([server, tool]) => `${server}__${tool}`),
    )
    const lines = [`the client sees ${names.join(', ')}`]
    for (const [server, tool, args = {}] of calls) {
      const { content } = await client.callTool({ name: `${server}__${tool}`, arguments: args })
      lines.push(`${server}__${tool}: ${JSON.stringify(content)}`)
    }
    return lines
  } finally {
    await client.close()
  }
}

async function recordedCalls(auditDir: string): Promise<string[]> {
  const logs = (await readdir(auditDir)).filter((name) => /^audit-.*\.ndjson$/.test(name)).sort()
  const texts = await Promise.all(logs.map((name) => readFile(join(auditDir, name), 'utf8')))
  return texts
    .flatMap((text) => text.trimEnd().split('\n'))
    .map((line): Record<string, unknown> => JSON.parse(line))
    .filter((record) => record['mcp_method'] === 'tools/call')
    .map(({ server, tool }) => `${server} ${tool}`)
}
