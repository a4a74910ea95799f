// `svc init` with the clients' real formats, a real client and real servers.
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { StdioServerParameters } from '@modelcontextprotocol/sdk/client/stdio.js'
import { expect } from 'chai'
import { auditCommand } from 'svc-sdk/internal/cli/audit'
import { initCommand } from 'svc-sdk/internal/cli/init'
import { policyCommand } from 'svc-sdk/internal/cli/policy'
import { runCommand } from '../../support/command.js'
import { listenOnLoopback } from '../../support/loopback.js'
import { json, type Message, serverOf } from '../../support/mcp-server.js'
import { say } from '../../support/stdio-target.js'
import { connected, Home } from './home.js'

const scripted = fileURLToPath(new URL('../../support/scripted-server.js', import.meta.url))
const token = 'ghp_0123456789abcdefghijklmnopqrstuvwxyz'
const scriptedEntry = {
  command: process.execPath,
  args: [scripted, '', '--token=t0psecret'],
  env: { TOKEN: token, LEVEL: 'debug' },
}

describe('svc init, with real parts', function () {
  this.timeout(60_000)

  it('lets a client call its own server, on record, until it is undone', async () => {
    using home = new Home()
    const claude = home.write('Claude Desktop', { mcpServers: { files: scriptedEntry } })
    const before = home.content()
    expect((await home.run('--yes')).code).to.equal(0)
    const { mcpServers } = JSON.parse(readFileSync(claude, 'utf8')) as {
      mcpServers: { files: StdioServerParameters }
    }
    {
      await using client = await connected(home, mcpServers.files)
      const given = JSON.parse(await say(client, 'env')) as Record<string, string>
      expect(given).to.include({ TOKEN: token, LEVEL: 'debug' })
      expect(JSON.parse(await say(client, 'argv'))).to.deep.equal(['', '--token=t0psecret'])
      expect(await say(client, 'cwd')).to.equal('/')
    }
    const log = join(home.project, '.svc', 'audit')
    const verified = await runCommand(auditCommand, [
      'verify',
      log,
      '--keys',
      join(home.project, '.svc', 'signing.key'),
    ])
    expect(verified.code, verified.out + verified.err).to.equal(0)
    const shown = await runCommand(auditCommand, ['show', log])
    expect(shown.out).to.include('"tool":"cwd@3.1.0"').and.not.include(token)
    const undone = await home.run('--undo', '--yes')
    expect(undone).to.include({ code: 0, err: '' })
    expect(undone.out).to.include('Stays           .svc: the log of the calls, and its key')
    expect(home.content()).to.include(before)
    expect(existsSync(join(home.project, 'svc.yaml'))).to.equal(false)
    expect(existsSync(join(home.project, '.svc', 'secrets'))).to.equal(false)
    const again = await home.run('--yes')
    expect(again, 'with the log and key of before').to.include({ code: 0, err: '' })
  })

  it('sends the header of an entry to a server over HTTP, from a file or from the client', async () => {
    const { upstream } = await serverOf((message, response) => {
      const results: Message = {
        'tools/list': { tools: [{ name: 'echo', inputSchema: { type: 'object' } }] },
      }
      const result = results[String(message['method'])] ?? { content: [{ type: 'text', text: 'hi' }] }
      json(response, { jsonrpc: '2.0', id: message['id'], result })
    })
    await using _ = upstream
    using home = new Home()
    const filled = '$' + '{input:key}'
    const file = home.write('VS Code', {
      servers: {
        kept: { type: 'http', url: `${upstream.url}/kept`, headers: { Authorization: `Bearer ${token}` } },
        asked: { type: 'http', url: `${upstream.url}/asked`, headers: { 'X-Key': filled } },
      },
    })
    expect((await home.run('--yes')).code).to.equal(0)
    expect(readFileSync(file, 'utf8')).to.not.include(token).and.not.include('"http"')
    const { servers } = JSON.parse(readFileSync(file, 'utf8')) as {
      servers: Record<string, StdioServerParameters>
    }
    for (const [name, header, value] of [
      ['kept', 'authorization', `Bearer ${token}`],
      ['asked', 'x-key', 'typed in'],
    ] as const) {
      const { command = '', args = [], env = {} } = servers[name] ?? {}
      const given = Object.fromEntries(
        Object.entries(env).map(([key, text]) => [key, text.replace(filled, 'typed in')]),
      )
      await using client = await connected(home, { command, args, env: given })
      expect(await say(client, 'echo')).to.equal('hi')
      const call = upstream.calls.findLast(({ body }) => body.includes('tools/call'))
      expect(call?.headers).to.have.property(header, value)
    }
  })

  it('writes a policy that passes check, and its first test', async () => {
    for (const preset of ['observe', 'guard']) {
      using home = new Home()
      home.write('Cursor', { mcpServers: { files: scriptedEntry } })
      expect((await home.run('--yes', '--preset', preset)).code).to.equal(0)
      const policy = (args: string[]) => runCommand((io) => policyCommand(io, home.env), args)
      const tested = await policy(['test', join(home.project, 'svc.test.yaml')])
      expect(tested.code, tested.out + tested.err).to.equal(0)
      const checked = await policy(['check', '--strict', join(home.project, 'svc.yaml')])
      expect(checked.code, checked.out).to.equal(0)
    }
  })

  it('names apart what differs, and shares what is the same', async () => {
    using home = new Home()
    const other = { ...scriptedEntry, args: [scripted, 'stateless'] }
    home.write('Claude Desktop', { mcpServers: { files: scriptedEntry, notes: scriptedEntry } })
    home.write('Cursor', { mcpServers: { files: other } })
    home.write('Claude Code', {
      mcpServers: { Files: scriptedEntry },
      projects: { '/srv': { mcpServers: { rel: { command: './run' } } } },
    })
    expect((await home.run('--yes')).out).to.include('files (as files-2')
    const policy = readFileSync(join(home.project, 'svc.yaml'), 'utf8')
    expect([...policy.matchAll(/^ {2}([\w"-]+):$/gm)].map(([, name]) => name)).to.include.members([
      'files',
      'files-2',
      'rel',
    ])
    expect(policy).to.include('command: /srv/run').and.not.include('notes')
  })

  it('adds what came later to the policy of the first time, whose changes it keeps', async () => {
    using home = new Home()
    home.write('Claude Desktop', { mcpServers: { files: scriptedEntry } })
    await home.run('--yes')
    const policy = join(home.project, 'svc.yaml')
    const owned = readFileSync(policy, 'utf8').replace('port: 8787', 'port: 9000 # mine')
    writeFileSync(policy, owned)
    home.write('Cursor', {
      mcpServers: {
        files: scriptedEntry,
        web: { url: 'https://mcp.example.com/mcp', headers: { 'X-Key': 'k3y' } },
      },
    })
    const before = home.content()
    expect((await home.run('--yes')).out).to.include('Would write     svc.yaml (+ web)')
    const extended = readFileSync(policy, 'utf8')
    for (const line of owned.split('\n')) expect(extended.split('\n')).to.include(line)
    expect(extended)
      .to.include('"web": "https://mcp.example.com/mcp"')
      .and.include('header: "X-Key"')
      .and.not.include('k3y')
    const undone = await home.run('--undo', '--yes')
    expect(undone.out).to.include('Stays           svc.yaml: changed since init wrote it')
    const path = '.cursor/mcp.json'
    expect(home.content()).to.have.property(path, before[path])
  })

  it('leaves a command with variables of the client in its entry, with what the client puts in', async () => {
    using home = new Home()
    const folder = '$' + '{workspaceFolder}'
    const args = [scripted, '', `--root=${folder}`]
    const file = home.write('VS Code', { servers: { files: { ...scriptedEntry, args } } })
    expect((await home.run('--yes')).code).to.equal(0)
    expect(readFileSync(join(home.project, 'svc.yaml'), 'utf8')).to.include('targets: {}')
    const { servers } = JSON.parse(readFileSync(file, 'utf8')) as {
      servers: { files: StdioServerParameters }
    }
    const { files } = servers
    const filled = files.args?.map((arg) => arg.replace(folder, '/srv')) ?? []
    await using client = await connected(home, { ...files, args: filled })
    expect(JSON.parse(await say(client, 'argv'))).to.deep.equal(['', '--root=/srv'])
    expect(JSON.parse(await say(client, 'env'))).to.include({ TOKEN: token, LEVEL: 'debug' })
    expect(files.env).to.deep.equal({ LEVEL: 'debug' })
    home.write('Cursor', { mcpServers: { other: scriptedEntry } })
    expect((await home.run('--yes')).code).to.equal(0)
    expect(readFileSync(join(home.project, 'svc.yaml'), 'utf8')).to.match(/^targets:\n {2}"other": \{/m)
  })

  it('asks a server over HTTP after the yes, and leaves one alone that wants a sign-in', async () => {
    const seen: string[] = []
    await using server = await listenOnLoopback(
      createServer((request, response) => {
        seen.push(request.url ?? '')
        response.writeHead(request.url === '/open' ? 200 : 401).end('{}')
      }),
    )
    using home = new Home()
    const urls = { open: { url: `${server.url}/open` }, closed: { url: `${server.url}/closed` } }
    const file = home.write('Cursor', { mcpServers: urls })
    await home.run()
    expect(seen).to.deep.equal([])
    const { code, err } = await home.run('--yes')
    expect({ code, err }).to.deep.equal({
      code: 0,
      err: 'Cursor: closed is left alone: its server wants a sign-in, which the client does\n',
    })
    const { mcpServers } = JSON.parse(readFileSync(file, 'utf8')) as { mcpServers: Record<string, object> }
    expect(mcpServers['closed']).to.deep.equal(urls.closed)
    expect(mcpServers['open']).to.have.property('command', process.execPath)
  })

  it('names variables that servers no longer get', async () => {
    using home = new Home()
    home.write('Cursor', { mcpServers: { a: { command: 'true' } } })
    const run = await runCommand(
      (io) => initCommand(io, { ...home.env, HTTPS_PROXY: 'http://proxy.example:1' }, undefined),
      ['--yes', '--dir', home.project],
    )
    expect(run.out).to.include('HTTPS_PROXY: env:HTTPS_PROXY').and.not.include('proxy.example')
  })
})
