// What `svc init` does not change without a yes of its own, or at all.
import { createHash } from 'node:crypto'
import { chmodSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { homedir } from 'node:os'
import { dirname, join } from 'node:path'
import { expect } from 'chai'
import { Home } from './home.js'

const started = { command: process.execPath, args: ['server.js'] }

describe('svc init, in doubt', function () {
  this.timeout(60_000)

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

  const withState = (home: Home, name: string, text: string) => {
    mkdirSync(join(home.project, '.svc'))
    writeFileSync(join(home.project, '.svc', name), text, { mode: 0o644 })
  }
  const refusals: readonly (readonly [string, (home: Home) => void, string])[] = [
    [
      'a key that came with a clone',
      (home) => withState(home, 'signing.key', 'AAAA'),
      'signing.key is not a file that svc wrote for you alone',
    ],
    [
      'a state directory that git would add',
      (home) => withState(home, '.gitignore', '!secrets'),
      '.gitignore does not keep secrets out of git',
    ],
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
    ...['secrets', 'undo', 'secrets/a'].map(
      (name) =>
        [
          `a directory .svc/${name} that leads elsewhere`,
          (home: Home) => {
            mkdirSync(join(home.path, 'elsewhere'))
            mkdirSync(dirname(join(home.project, '.svc', name)), { recursive: true })
            symlinkSync(join(home.path, 'elsewhere'), join(home.project, '.svc', name))
          },
          `.svc/${name} is a symbolic link`,
        ] as const,
    ),
    [
      'a link in place of .gitignore, which git does not follow',
      (home) => {
        writeFileSync(join(home.project, 'ignored'), '*\n')
        mkdirSync(join(home.project, '.svc'))
        symlinkSync('../ignored', join(home.project, '.svc', '.gitignore'))
      },
      '.gitignore is a symbolic link',
    ],
    [
      'a journal that came with a clone',
      (home) => {
        mkdirSync(join(home.project, '.svc', 'undo'), { recursive: true })
        writeFileSync(join(home.project, '.svc', 'undo', 'journal.json'), '{}', { mode: 0o644 })
      },
      'journal.json is not a file that svc wrote for you alone',
    ],
  ]
  for (const [what, prepare, reason] of refusals) {
    it(`refuses ${what}`, async () => {
      using home = new Home()
      home.write('Cursor', { mcpServers: { a: { command: 'true', env: { KEY: 's3cret-value' } } } })
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
    home.write('Claude Desktop', { mcpServers: { files: started } })
    home.write('Cursor', { mcpServers: { files: started } })
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

  it('opens no directory that holds the home of the user to the arguments of tools', async () => {
    using home = new Home()
    const args = ['server.js', '/', dirname(homedir()), homedir(), import.meta.dirname]
    home.write('Cursor', { mcpServers: { a: { command: process.execPath, args } } })
    expect((await home.run('--yes', '--preset', 'guard')).code).to.equal(0)
    const [, allowed] =
      /fs_allowlist: \[(.*?)\]/.exec(readFileSync(join(home.project, 'svc.yaml'), 'utf8')) ?? []
    expect(allowed).to.equal(`"${home.project}/**", "${import.meta.dirname}/**"`)
  })

  it('refuses a file of the directory that it does not find', async () => {
    using home = new Home()
    home.write('Cursor', { mcpServers: { a: { command: 'true' } } })
    const { err, code } = await home.run('--yes', '--yes-to', '.vscode/mcp.jsn')
    expect(code).to.equal(1)
    expect(err).to.include('.vscode/mcp.jsn is not a configuration in this directory')
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

  for (const [how, name] of [
    ['a path that leads out of it', '../other/file'],
    ['an absolute path', undefined],
    ['a symbolic link', 'link/file'],
  ] as const)
    it(`undoes no file outside of the directory, by ${how}`, async () => {
      using home = new Home()
      home.write('Cursor', { mcpServers: { a: { command: 'true' } } })
      await home.run('--yes')
      const outside = join(home.path, 'other')
      mkdirSync(outside)
      writeFileSync(join(outside, 'file'), 'mine')
      symlinkSync(outside, join(home.project, 'link'))
      const file = join(home.project, '.svc', 'undo', 'journal.json')
      const journal = JSON.parse(readFileSync(file, 'utf8'))
      journal.written[name ?? join(outside, 'file')] = createHash('sha256').update('mine').digest('hex')
      writeFileSync(file, JSON.stringify(journal))
      const { err, code } = await home.run('--undo', '--yes')
      expect(code).to.equal(1)
      expect(err).to.include(`which is not below ${home.project}`)
      expect(readFileSync(join(outside, 'file'), 'utf8')).to.equal('mine')
    })
})
