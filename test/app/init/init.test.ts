// `svc init` with the clients' real formats, a real client and real servers.
import { chmodSync, existsSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StdioClientTransport, type StdioServerParameters } from '@modelcontextprotocol/sdk/client/stdio.js'
import { generateKeyFile } from '@svc/plugin-audit/log'
import { expect } from 'chai'
import { auditCommand } from 'svc-sdk/internal/cli/audit'
import { doctorCommand } from 'svc-sdk/internal/cli/doctor'
import { policyCommand } from 'svc-sdk/internal/cli/policy'
import { configurationPlaces } from 'svc-sdk/internal/init/clients'
import { runCommand } from '../../support/command.js'
import { listenOnLoopback } from '../../support/loopback.js'
import { say } from '../../support/stdio-target.js'
import { Home } from './home.js'

const scripted = fileURLToPath(new URL('../../support/scripted-server.js', import.meta.url))
const token = 'ghp_0123456789abcdefghijklmnopqrstuvwxyz'
const scriptedEntry = {
  command: process.execPath,
  args: [scripted, '', '--token=t0psecret'],
  env: { TOKEN: token, LEVEL: 'debug' },
}

/** A client that starts the entry as Claude Desktop does: in the root directory, with few variables. */
async function connected(
  home: Home,
  { env, ...entry }: StdioServerParameters,
): Promise<Client & AsyncDisposable> {
  const client = new Client({ name: 'test', version: '1.0.0' })
  await client.connect(
    new StdioClientTransport({ ...entry, cwd: '/', env: { ...home.env, ...env }, stderr: 'ignore' }),
  )
  return Object.assign(client, { [Symbol.asyncDispose]: () => client.close() })
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

  it('takes the servers of a directory only if they are named, or with a yes for each', async () => {
    using home = new Home()
    const file = home.write(
      'VS Code',
      { servers: { mine: { command: 'true' }, theirs: { command: 'false' } } },
      true,
    )
    const refused = await home.run('--yes')
    expect(refused).to.include({ code: 1 })
    expect(refused.out).to.include('left alone without --yes-to .vscode/mcp.json')
    const questions: string[] = []
    const ask = async (question: string) => {
      questions.push(question)
      return question.includes('theirs') ? '' : 'y'
    }
    expect((await home.asked(ask)).code).to.equal(0)
    expect(questions).to.have.length(3)
    const { servers } = JSON.parse(readFileSync(file, 'utf8')) as {
      servers: Record<string, { command: string }>
    }
    expect(servers['theirs']).to.deep.equal({ command: 'false' })
    expect(servers['mine']?.command).to.equal(process.execPath)
  })

  const leftAlone: readonly (readonly [string, string | object, string])[] = [
    ['text that is not JSON', '{\n  "mcpServers": {\n    "a": nope\n', 'not JSON at 3:10; left alone'],
    ['a comment where the client reads none', '{ // mine\n}', 'not JSON at 1:3; left alone'],
    ['bytes that are not UTF-8', '{"mcpServers": "\xff"}', 'not UTF-8; left alone'],
    ['one server twice', '{"mcpServers": {"a": {}, "a": {}}}', 'the member "a" twice at 1:26; left alone'],
    ['a member __proto__', '{"__proto__": {}}', 'a member __proto__ at 1:2; left alone'],
    ['the transport of 2024', { url: 'https://a.example/sse' }, 'HTTP with SSE of 2024-11-05'],
    ['a sign-in of the client', { url: 'https://a.example/mcp', oauth: {} }, 'the client signs in (oauth)'],
    ['a key in a URL', { url: 'https://a.example/mcp?key=s3cret' }, 'its URL has a query or credentials'],
    [
      'two headers',
      { url: 'https://a.example/mcp', headers: { A: '1', B: '2' } },
      'it has two headers, and a broker sets one',
    ],
    [
      'a reserved header',
      { url: 'https://a.example/mcp', headers: { traceparent: '1' } },
      'the header traceparent',
    ],
    [
      'a secret beside variables of the client',
      { command: 'a', args: ['$' + '{workspaceFolder}', '--token=s3cret'] },
      'a secret in a command into which the client puts variables',
    ],
    ['variables from a file', { command: 'a', envFile: '.env' }, 'its variables come from a file (envFile)'],
    ['a relative command', { command: './a' }, 'its command is relative, and the file does not say to what'],
    [
      'white space around a variable',
      { command: 'a', env: { KEY: ' s3cret' } },
      'the form of the variable KEY',
    ],
    ['an extension', { source: 'extension' }, 'it has neither a command nor a URL'],
  ]
  for (const [what, content, reason] of leftAlone) {
    it(`leaves alone ${what}`, async () => {
      using home = new Home()
      const text = typeof content === 'string' ? content : JSON.stringify({ mcpServers: { server: content } })
      home.write('Claude Desktop', Buffer.from(text, 'latin1'))
      const before = home.content()
      const { out, err, code } = await home.run('--yes')
      expect(code).to.equal(1)
      expect(out).to.include(reason).and.not.include('s3cret')
      expect(err).to.equal('')
      expect(home.content()).to.deep.equal(before)
    })
  }

  it('leaves alone a file that nobody may write', async () => {
    using home = new Home()
    chmodSync(home.write('Cursor', { mcpServers: { a: { command: 'true' } } }), 0o444)
    const { out, code } = await home.run('--yes')
    expect({ code, isSaid: out.includes('read-only; left alone') }).to.deep.equal({ code: 1, isSaid: true })
  })

  const refusals: readonly (readonly [string, (home: Home) => void, string])[] = [
    [
      'a policy that it did not write',
      (home) => writeFileSync(join(home.project, 'svc.yaml'), ''),
      'svc.yaml exists, and init did not write it',
    ],
    [
      'a state directory that leads elsewhere',
      (home) => {
        mkdirSync(join(home.path, 'elsewhere'))
        symlinkSync(join(home.path, 'elsewhere'), join(home.project, '.svc'))
      },
      '.svc is a symbolic link',
    ],
    [
      'a journal that came with a clone',
      (home) => {
        mkdirSync(join(home.project, '.svc', 'undo'), { recursive: true })
        writeFileSync(join(home.project, '.svc', 'undo', 'journal.json'), '{}', { mode: 0o644 })
      },
      'journal.json is not a file that svc init wrote for you alone',
    ],
  ]
  for (const [what, prepare, reason] of refusals) {
    it(`refuses ${what}`, async () => {
      using home = new Home()
      home.write('Cursor', { mcpServers: { a: { command: 'true' } } })
      prepare(home)
      const before = home.content()
      const { err, code } = await home.run('--yes')
      expect(code).to.equal(1)
      expect(err).to.include(reason).and.include('Nothing was changed.')
      expect(home.content()).to.deep.equal(before)
    })
  }

  it('takes everything back if a configuration changes while it asks', async () => {
    using home = new Home()
    home.write('Claude Desktop', { mcpServers: { files: scriptedEntry } })
    home.write('Cursor', { mcpServers: { files: scriptedEntry } })
    let before = {}
    const { code, err } = await home.asked(async () => {
      home.write('Cursor', { mcpServers: {} })
      before = home.content()
      return 'y'
    })
    expect({ code, isSaid: err.includes('mcp.json changed while init ran') }).to.deep.equal({
      code: 1,
      isSaid: true,
    })
    expect(home.content()).to.deep.equal(before)
  })

  it('has doctor name the servers of clients that go round the gateway, until it governs them', async () => {
    using home = new Home()
    home.write('Cursor', { mcpServers: { files: scriptedEntry } })
    const own = join(home.path, 'own')
    mkdirSync(own)
    generateKeyFile(join(own, 'key'))
    writeFileSync(
      join(own, 'policy.yaml'),
      `tenant: acme
port: 8787
targets: {}
entitlements: open
audit: { gatewayName: gw, gatewayVersion: 1.0.0, signer: { keyRef: file://key } }
quotas: { adapter: memory }
`,
    )
    home.write('Windsurf', { mcpServers: { gateway: { serverUrl: 'http://127.0.0.1:8787/mcp/x' } } })
    home.write('Zed', Buffer.from('{'))
    const clients = async () => {
      const { out } = await runCommand(
        (io) => doctorCommand(io, home.env),
        [join(own, 'policy.yaml'), '--json'],
      )
      const { checks } = JSON.parse(out) as { checks: { section: string; message: string }[] }
      return checks.flatMap(({ section, message }) => (section === 'clients' ? [message] : []))
    }
    const broken = 'Zed, ~/.config/zed/settings.json: not JSON at 1:2, so its servers are not known'
    const cursor = 'Cursor, ~/.cursor/mcp.json: goes round the gateway: files'
    expect(await clients()).to.deep.equal([cursor, broken])
    await home.run('--yes')
    expect(await clients()).to.deep.equal([broken])
  })

  it('undoes no change of a file that is not a configuration of a client', async () => {
    using home = new Home()
    home.write('Cursor', { mcpServers: { a: { command: 'true' } } })
    await home.run('--yes')
    const journal = join(home.project, '.svc', 'undo', 'journal.json')
    writeFileSync(journal, readFileSync(journal, 'utf8').replace('.cursor/mcp.json', '.bashrc'))
    const { err, code } = await home.run('--undo', '--yes')
    expect(code).to.equal(1)
    expect(err).to.include('.bashrc, which is not a configuration of a client')
  })
})

describe('the places of configurations', () => {
  const homes = {
    linux: { env: { HOME: '/home/ada', XDG_CONFIG_HOME: '/home/ada/cfg' }, dir: '/p' },
    darwin: { env: { HOME: '/Users/ada' }, dir: '/p' },
    win32: {
      env: { USERPROFILE: 'C:\\Users\\ada', APPDATA: 'C:\\Users\\ada\\AppData\\Roaming' },
      dir: 'C:\\p',
    },
  } as const
  const expected = {
    linux: [
      '/home/ada/cfg/Claude/claude_desktop_config.json',
      '/home/ada/.claude.json',
      '/home/ada/cfg/Code/User/mcp.json',
      '/home/ada/cfg/zed/settings.json',
      '/home/ada/.codeium/windsurf/mcp_config.json',
      '/p/.mcp.json',
    ],
    darwin: [
      '/Users/ada/Library/Application Support/Claude/claude_desktop_config.json',
      '/Users/ada/Library/Application Support/Code/User/mcp.json',
      '/Users/ada/.config/zed/settings.json',
      '/p/.vscode/mcp.json',
    ],
    win32: [
      'C:\\Users\\ada\\AppData\\Roaming\\Claude\\claude_desktop_config.json',
      'C:\\Users\\ada\\.cursor\\mcp.json',
      'C:\\Users\\ada\\AppData\\Roaming\\Zed\\settings.json',
      'C:\\p\\.cursor\\mcp.json',
    ],
  } as const
  for (const platform of ['linux', 'darwin', 'win32'] as const) {
    it(`are those of ${platform}`, () => {
      const files = configurationPlaces({ ...homes[platform], platform }).map(({ file }) => file)
      expect(files).to.include.members([...expected[platform]])
    })
  }
})
