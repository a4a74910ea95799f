// `npm run demo` begins with this: the first minutes of a user, from an empty home and the packed packages to a verified
// log, with real commands, a real client and a real server. Exits with 0 only when every step passes.
import { strict as assert } from 'node:assert'
import { execFile } from 'node:child_process'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StdioClientTransport, type StdioServerParameters } from '@modelcontextprotocol/sdk/client/stdio.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js'
import { Running } from '../../support/gateway-process.js'
import { PackedInstall } from '../../support/packed.js'

const deletion = { name: 'delete_entities', arguments: { entityNames: ['harbour'] } }

const started = performance.now()
const install = new PackedInstall()
const modules = join(install.directory, 'node_modules')
const home = join(install.directory, 'home')
const project = join(home, 'project')
const policyFile = join(project, 'svc.yaml')
const configuration = join(home, '.config/Claude/claude_desktop_config.json')
const program = join(modules, 'svc-sdk/bin/svc.js')
const env = { HOME: home, XDG_CONFIG_HOME: join(home, '.config'), PATH: process.env['PATH'] ?? '' }

try {
  await walk()
  console.log(`\nAll first steps passed in ${Math.round((performance.now() - started) / 1000)} s.`)
} finally {
  install.remove()
}

async function walk(): Promise<void> {
  say('A user of Claude Desktop has a server that remembers facts.')
  mkdirSync(project, { recursive: true })
  mkdirSync(dirname(configuration), { recursive: true })
  const memory = {
    command: process.execPath,
    args: [join(modules, '@modelcontextprotocol/server-memory/dist/index.js')],
    env: { MEMORY_FILE_PATH: join(home, 'memory.jsonl') },
  }
  writeFileSync(configuration, JSON.stringify({ mcpServers: { memory } }, null, 2))

  say('init puts it behind a policy that refuses what is risky; doctor checks the policy.')
  assert.match(await svc('init', '--yes', '--preset', 'guard'), /^Done: Claude Desktop: 1 entry/m)
  assert.match(await svc('doctor', 'svc.yaml'), /^no errors/m)

  say('Claude Desktop starts the changed entry, and its calls pass through the gateway.')
  const { mcpServers } = JSON.parse(readFileSync(configuration, 'utf8')) as {
    mcpServers: { memory: StdioServerParameters }
  }
  const entry = mcpServers.memory
  await using desktop = await connect(
    new StdioClientTransport({ ...entry, cwd: '/', env: { ...env, ...entry.env }, stderr: 'ignore' }),
  )
  const entity = { name: 'harbour', entityType: 'bakery', observations: ['open on Mondays'] }
  await call(desktop, { name: 'create_entities', arguments: { entities: [entity] } })
  assert.match(await call(desktop, { name: 'read_graph' }), /open on Mondays/)

  say('Other clients reach the same server over HTTP. A call that deletes is refused.')
  {
    await using gateway = await start()
    await using client = await connect(gateway.transport)
    assert.match(await call(client, { name: 'read_graph' }), /open on Mondays/)
    assert.match(await refusal(client, deletion), /rule:deletions/)
  }

  say('The rule is changed: what deletes needs the approval of a person.')
  const policy = readFileSync(policyFile, 'utf8')
  const changed = policy.replace(/(- name: deletions\n(?: .*\n)*? +then: )deny/, '$1escalate')
  assert.notEqual(changed, policy)
  const admin = 'admin:\n  port: 0\n  tokenRef: file://.svc/admin.token'
  writeFileSync(policyFile, `${changed}\n${admin}\n`)
  writeFileSync(join(project, '.svc/admin.token'), 'a-token-of-the-demo-of-32-characters', { mode: 0o600 })
  assert.match(await svc('policy', 'check', 'svc.yaml'), /svc\.yaml: OK/)

  say('The call waits for an approval, and passes once with it.')
  await using gateway = await start()
  await using client = await connect(gateway.transport)
  const waiting = await refusal(client, deletion)
  const id = /esc_[0-9a-f]+/.exec(waiting)?.[0]
  assert.ok(id !== undefined, waiting)
  const reviewer = ['--admin', gateway.adminUrl, '--token-ref', `file://${join(project, '.svc/admin.token')}`]
  assert.match(await svc('escalations', 'list', ...reviewer), /delete_entities/)
  assert.match(await svc('escalations', 'approve', id, ...reviewer), /^status +approved/m)
  await call(client, { ...deletion, _meta: { 'svc/escalation-id': id } })
  assert.doesNotMatch(await call(client, { name: 'read_graph' }), /open on Mondays/)

  say('The log has all of it, and every signature is valid.')
  assert.match(
    await svc('audit', 'show', '.svc/audit', '--format', 'table'),
    /delete_entities.*rule:deletions/,
  )
  assert.match(await svc('audit', 'verify', '.svc/audit', '--keys', '.svc/signing.key'), /intact/)
}

function say(title: string): void {
  console.log(`\n${title}`)
}

/** Runs the installed command in the project, and shows what it prints. */
async function svc(...args: string[]): Promise<string> {
  console.log(`   $ npx svc-sdk ${args.join(' ')}`)
  const { stdout } = await promisify(execFile)(process.execPath, [program, ...args], { cwd: project, env })
  console.log(`   ${stdout.trimEnd().replaceAll('\n', '\n   ')}`)
  return stdout
}

async function start(): Promise<AsyncDisposable & { transport: Transport; adminUrl: string }> {
  const running = new Running(['--policy', policyFile, '--port', '0'], env, [program])
  const { url = '', adminUrl = '' } = await running.line('listening')
  return {
    transport: new StreamableHTTPClientTransport(new URL('/mcp/memory', url)) as Transport,
    adminUrl,
    [Symbol.asyncDispose]: () => running[Symbol.asyncDispose](),
  }
}

async function connect(transport: Transport): Promise<Client & AsyncDisposable> {
  const client = new Client({ name: 'demo', version: '1.0.0' })
  await client.connect(transport)
  return Object.assign(client, { [Symbol.asyncDispose]: () => client.close() })
}

type ToolCall = Parameters<Client['callTool']>[0]

async function call(client: Client, params: ToolCall): Promise<string> {
  const result = await client.callTool(params)
  const text = JSON.stringify(result)
  assert.notEqual(result.isError, true, text)
  console.log(`   ${params.name}: ${text.slice(0, 160)}`)
  return text
}

async function refusal(client: Client, params: ToolCall): Promise<string> {
  const result = await client.callTool(params)
  assert.equal(result.isError, true, `${params.name} was not refused`)
  const text = JSON.stringify(result)
  console.log(`   ${params.name}: ${text}`)
  return text
}
