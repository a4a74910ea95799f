import { readFileSync, realpathSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import * as sdk2 from '@modelcontextprotocol/client'
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio'
import { ElicitRequestSchema, ToolListChangedNotificationSchema } from '@modelcontextprotocol/sdk/types.js'
import { canonicalize, sha256Hex } from '@svc/core/json'
import { expect } from 'chai'
import { escalationsCommand } from 'svc-sdk/internal/cli/escalations'
import { commandTarget, serverNameOf } from 'svc-sdk/internal/stdio/gateway/command-target'
import { runCommand } from '../../support/command.js'
import { startEverything } from '../../support/everything.js'
import { refusalOf, rejectionOf } from '../../support/rejection.js'
import { StdioGateway } from '../../support/stdio-gateway.js'
import { say, until } from '../../support/stdio-target.js'
import { adminToken } from '../admin/rig.js'
import { ada, files, open, scripted, served } from './stdio-servers.js'

describe('svc stdio', function () {
  this.timeout(60_000)

  it('serves the tools that the policy allows, and records calls under the names of server and tool', async () => {
    using gateway = new StdioGateway(`${ada}entitlements:
  default_plan: all
  plans: { all: {} }
  tenants: { acme: { plan: all, allowlist: [], roles: { analyst: { allowlist: [files/echo] } } } }
`)
    await using connected = await gateway.serve(served())
    const { client } = connected
    const { tools } = await client.listTools()
    expect(tools.map(({ name }) => name)).to.deep.equal(['echo'])
    expect(await say(client, 'echo', { said: 'hi' })).to.equal('hi')
    expect(await refusalOf(client.callTool({ name: 'pid' }))).to.include({ error: 'TOOL_NOT_ALLOWED' })
    const calls = gateway.records().filter((record) => record['mcp_method'] === 'tools/call')
    expect(calls.map(({ server, tool, status }) => ({ server, tool, status }))).to.deep.equal([
      { server: 'files@3.1.0', tool: 'echo@3.1.0', status: 'ok' },
      { server: 'files@3.1.0', tool: 'pid@3.1.0', status: 'error' },
    ])
    expect(calls[0]?.principal).to.deep.equal({ user: 'ada@example.com', roles: ['analyst'] })
  })

  it('takes references as variables of a command, and no values, which may be secrets', () => {
    const target = (variable: string) => commandTarget({ command: 'a', args: [], env: [variable] })
    expect(target('A').env).to.deep.equal({ A: 'env:A' })
    expect(target('A=file://key').env).to.deep.equal({ A: 'file://key' })
    expect(() => target('A=hunter2')).to.throw(/^--env A=… is not a reference; accepted is --env A, or /)
  })

  it('starts a target where --cwd says, else at the policy, and has a command of its own in the policy hash', async () => {
    using gateway = new StdioGateway(
      `${open}targets: { own: { command: ${process.execPath}, args: [${scripted}] } }\n`,
    )
    const run = async (args: readonly string[]) => {
      await using connected = await gateway.connect(args)
      const directory = await say(connected.client, 'cwd')
      return { directory, hash: gateway.records().at(-1)?.policy_sha256 }
    }
    const ofFile = sha256Hex(readFileSync(gateway.policy, 'utf8'))
    expect(await run(['--name', 'own'])).to.deep.equal({
      directory: realpathSync(gateway.home),
      hash: ofFile,
    })
    expect((await run(['--name', 'own', '--cwd', tmpdir()])).directory).to.equal(realpathSync(tmpdir()))
    const command = { args: [scripted, ''], command: process.execPath, env: ['HOME'], server: 'files' }
    const { hash } = await run(['--env', 'HOME', ...files()])
    expect(hash).to.equal(sha256Hex(canonicalize({ ...command, policy_sha256: ofFile })))
  })

  it('lets the server ask its client, report progress and changes, and end, and gives it the variables that are named', async () => {
    using gateway = new StdioGateway(open)
    const env = { TOKEN: 'given', SECRET: 'kept' }
    const capabilities = { elicitation: {} }
    await using connected = await gateway.connect(['--env', 'TOKEN', ...files()], { env, capabilities })
    const { client, transport } = connected
    client.setRequestHandler(ElicitRequestSchema, () => ({ action: 'accept', content: { name: 'Ada' } }))
    expect(JSON.parse(await say(client, 'ask'))).to.deep.equal({ action: 'accept', content: { name: 'Ada' } })
    // The SDK removes a progress handler when the response arrives, which may be at the same time as the last report.
    const seen: unknown[] = []
    const { onmessage } = transport
    transport.onmessage = (message) => {
      if ('method' in message && message.method === 'notifications/progress')
        seen.push(message.params?.['progress'])
      onmessage?.(message)
    }
    await client.callTool({ name: 'progress', _meta: { progressToken: 'p' } })
    expect(seen).to.deep.equal([1, 2])
    const changed = new Promise<void>((resolve) =>
      client.setNotificationHandler(ToolListChangedNotificationSchema, () => resolve()),
    )
    await client.callTool({ name: 'changed' })
    await changed
    const variables = JSON.parse(await say(client, 'env')) as Record<string, string>
    expect(variables).to.include({ TOKEN: 'given' }).and.not.have.property('SECRET')
    const pid = await say(client, 'pid')
    expect(await refusalOf(client.callTool({ name: 'exit' }))).to.include({ error: 'UPSTREAM_UNREACHABLE' })
    expect(Number(await say(client, 'pid')))
      .to.be.above(0)
      .and.not.equal(Number(pid))
  })

  const revisions = { legacy: '2025-06-18', auto: '2026-07-28' } as const
  for (const [mode, revision] of Object.entries(revisions) as [keyof typeof revisions, string][]) {
    it(`serves a client of the revision ${revision}, and stops the calls that it cancels`, async () => {
      using gateway = new StdioGateway(open)
      const { command, args } = gateway.command(files())
      const client = new sdk2.Client({ name: 'test', version: '1' }, { versionNegotiation: { mode } })
      await client.connect(new StdioClientTransport({ command, args }))
      try {
        expect((await client.listTools()).tools.map(({ name }) => name)).to.include('echo')
        const { content } = await client.callTool({ name: 'echo', arguments: { said: 'hi' } })
        expect(content).to.deep.equal([{ type: 'text', text: 'hi' }])
        const abort = new AbortController()
        const cancelled = client.callTool({ name: 'hang' }, { signal: abort.signal })
        await client.callTool({ name: 'echo', arguments: { said: 'sent after the other' } })
        abort.abort()
        expect((await rejectionOf(cancelled)).message).to.include('aborted')
        const hung = () => gateway.records().find(({ tool }) => tool.startsWith('hang@'))
        await until(() => hung() !== undefined)
        expect(hung()).to.include({ error: 'CANCELLED', mcp_revision: revision })
      } finally {
        await client.close()
      }
    })
  }

  it('lets a command of the policy ask its client, and starts no other', async () => {
    const [, , , command, ...args] = files()
    const target = { command, args, start: 'at_start' }
    using gateway = new StdioGateway(`${open}targets: ${JSON.stringify({ files: target, other: target })}\n`)
    await using connected = await gateway.connect(['--name', 'files'], { capabilities: { elicitation: {} } })
    const { client } = connected
    client.setRequestHandler(ElicitRequestSchema, () => ({ action: 'decline' }))
    expect(JSON.parse(await say(client, 'ask'))).to.deep.equal({ action: 'decline' })
    expect(await gateway.logged('server')).to.equal('files')
    expect(readFileSync(gateway.log, 'utf8')).to.not.contain('"other"')
  })

  it('serves a target of the policy by its name', async () => {
    await using everything = await startEverything()
    using gateway = new StdioGateway(`${open}targets: { remote: "${everything.url}" }\n`)
    await using connected = await gateway.serve({ name: 'remote' })
    const { content } = await connected.client.callTool({ name: 'echo', arguments: { message: 'hi' } })
    expect(content).to.deep.equal([{ type: 'text', text: 'Echo: hi' }])
    expect(gateway.records().map(({ server }) => server.split('@')[0])).to.include('remote')
  })

  it('serves all targets of the policy as one, without a name', async () => {
    await using everything = await startEverything()
    const [, , , command, ...args] = files()
    const targets = { one: { command, args }, two: { command, args }, remote: everything.url }
    using gateway = new StdioGateway(`${ada}targets: ${JSON.stringify(targets)}
entitlements:
  default_plan: all
  plans: { all: {} }
  tenants: { acme: { plan: all, allowlist: [one/pid, two/pid, two/ask, remote/echo] } }
`)
    await using connected = await gateway.serve({}, { capabilities: { elicitation: {} } })
    const { client } = connected
    client.setRequestHandler(ElicitRequestSchema, () => ({ action: 'decline' }))
    const { tools } = await client.listTools()
    expect(tools.map(({ name }) => name)).to.have.members([
      'one__pid',
      'two__pid',
      'two__ask',
      'remote__echo',
    ])
    expect(await say(client, 'one__pid')).to.not.equal(await say(client, 'two__pid'))
    expect(await say(client, 'remote__echo', { message: 'hi' })).to.equal('Echo: hi')
    expect(JSON.parse(await say(client, 'two__ask'))).to.deep.equal({ action: 'decline' })
    const calls = gateway.records().filter((record) => record['mcp_method'] === 'tools/call')
    expect(calls.map(({ server, tool }) => `${server} ${tool.split('@')[0]}`)).to.deep.equal([
      'one@3.1.0 pid',
      'two@3.1.0 pid',
      'remote@2.0.0 echo',
      'two@3.1.0 ask',
    ])
  })

  describe('with approvals', () => {
    const held = `${ada}entitlements:
  default_plan: all
  plans: { all: {} }
  tenants: { acme: { plan: all, allowlist: [files/pid] } }
security: { side_effects: { approve_high_risk: true } }
enforcement: { escalate_on: [tool_not_in_allowlist] }
`
    const env = { SVC_ADMIN: adminToken }
    const admin = (port: number) => `admin: { port: ${port}, tokenRef: env:SVC_ADMIN }\n`

    it('has a call approved by `svc escalations`, also if another process uses the admin port', async () => {
      using gateway = new StdioGateway(`${held}${admin(0)}`)
      await using first = await gateway.connect(files(), { env })
      const adminUrl = await gateway.logged('adminUrl')
      const same = readPolicy(gateway).replace('port: 0', `port: ${new URL(adminUrl).port}`)
      writeFileSync(gateway.policy, same)
      await using second = await gateway.connect(files(), { env })
      for (const { client } of [first, second]) {
        const call = (meta = {}) => client.callTool({ name: 'echo', arguments: { said: 'hi' }, _meta: meta })
        const refused = await refusalOf(call())
        expect(refused).to.include({ error: 'ESCALATION_PENDING' })
        const { escalation_id: id } = refused
        const run = await runCommand(
          (io) => escalationsCommand(io, { SVC_ADMIN_URL: adminUrl, SVC_ADMIN_TOKEN: adminToken }),
          ['approve', String(id)],
        )
        expect(run.code, run.err).to.equal(0)
        expect((await call({ 'svc/escalation-id': id })).content).to.deep.equal([
          { type: 'text', text: 'hi' },
        ])
      }
    })
  })

  it('names a server after its package or program', () => {
    expect(serverNameOf('npx', ['-y', '@modelcontextprotocol/server-filesystem@2026.1.1', '/srv'])).to.equal(
      'server-filesystem',
    )
    expect(serverNameOf('uvx', ['mcp-server-git'])).to.equal('mcp-server-git')
    expect(serverNameOf('/usr/bin/files.exe', [])).to.equal('files')
    expect(serverNameOf('/usr/bin/node', ['server.js'])).to.equal(undefined)
  })
})

function readPolicy({ policy }: StdioGateway): string {
  return readFileSync(policy, 'utf8')
}
