// `svc init` for entries that run a package by npx: with the real npm, and a registry on loopback.
import { execFile } from 'node:child_process'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import type { StdioServerParameters } from '@modelcontextprotocol/sdk/client/stdio.js'
import { expect } from 'chai'
import { policyCommand } from 'svc-sdk/internal/cli/policy'
import { runCommand } from '../../support/command.js'
import { NpmRegistry, packageName } from '../../support/npm-registry.js'
import { ofEachTest } from '../../support/parts.js'
import { rejectionOf } from '../../support/rejection.js'
import { say } from '../../support/stdio-target.js'
import { connected, Home } from './home.js'

const npxEntry = { command: 'npx', args: ['-y', packageName, '', '--verbose'] }
const folder = '$' + '{workspaceFolder}'

describe('svc init, for packages of npx', function () {
  this.timeout(120_000)

  const home = ofEachTest(() => new Home())
  const registry = ofEachTest(() => new NpmRegistry())
  beforeEach(async () => {
    await registry.start()
    registry.publish('1.0.0')
    Object.assign(home.env, registry.env)
  })

  const at = (...path: string[]) => join(home.project, 'mcp-servers', 'files', ...path)
  const entryIn = (file: string) =>
    (JSON.parse(readFileSync(file, 'utf8')) as { mcpServers: { files: StdioServerParameters } }).mcpServers
      .files

  it('runs the installed program from a lock file, asks no registry again, and is undone', async () => {
    const claude = home.write('Claude Desktop', { mcpServers: { files: npxEntry } })
    const before = home.content()
    const run = await home.run('--yes')
    expect(run).to.include({ code: 0, err: '' })
    expect(run.out).to.include(`Would install   ${packageName} from npm's registry to mcp-servers/`)
    expect(readFileSync(join(home.project, 'svc.yaml'), 'utf8'))
      .to.include(`command: mcp-servers/files/node_modules/.bin/${packageName}`)
      .and.not.include('command: npx')
    const lock = JSON.parse(readFileSync(at('package-lock.json'), 'utf8'))
    expect(lock.packages[`node_modules/${packageName}`]).to.include({
      version: '1.0.0',
      integrity: registry.versions.get('1.0.0')?.integrity,
    })
    expect(existsSync(at('node_modules', packageName, 'installed')), 'the install script ran').to.equal(false)
    registry.versions.clear()
    {
      await using client = await connected(home, entryIn(claude))
      expect(JSON.parse(await say(client, 'argv'))).to.deep.equal(['', '--verbose'])
    }
    const policy = (args: string[]) => runCommand((io) => policyCommand(io, home.env), args)
    const checked = await policy(['check', '--strict', join(home.project, 'svc.yaml')])
    expect(checked.code, checked.out).to.equal(0)
    expect((await home.run('--undo', '--yes')).out).to.include(
      'Would remove    svc.yaml, svc.test.yaml, mcp-servers/files,',
    )
    expect(readFileSync(claude, 'latin1')).to.equal(
      before['.config/Claude/claude_desktop_config.json']?.slice(4),
    )
    expect(existsSync(join(home.project, 'mcp-servers'))).to.equal(false)
  })

  it('writes a lock from which npm installs nothing that differs', async () => {
    home.write('Cursor', { mcpServers: { files: npxEntry } })
    await home.run('--yes')
    const [first] = registry.versions.values()
    registry.publish('1.0.1')
    const other = registry.versions.get('1.0.1')
    if (first === undefined || other === undefined) throw new Error('not published')
    registry.versions.set('1.0.0', { ...first, bytes: other.bytes })
    const cache = { npm_config_cache: join(home.path, 'another-cache') }
    const options = { cwd: at(), env: { ...home.env, ...cache } }
    const flags = ['--ignore-scripts', '--no-audit', '--fetch-retries=1', '--fetch-retry-mintimeout=10']
    const ci = promisify(execFile)('npm', ['ci', ...flags], options)
    expect(await rejectionOf(ci))
      .to.have.property('stderr')
      .that.includes('EINTEGRITY')
  })

  it('leaves an entry alone whose package cannot be installed, and governs the others', async () => {
    const missing = { command: 'npx', args: ['-y', `${packageName}@9.0.0`] }
    const cursor = home.write('Cursor', { mcpServers: { missing, files: npxEntry } })
    const { code, err } = await home.run('--yes')
    expect(code).to.equal(0)
    expect(err).to.match(
      new RegExp(
        `^Cursor: missing is left alone: its package ${packageName}@9.0.0 cannot be installed: npm error code ETARGET.*\n$`,
      ),
    )
    expect(entryIn(cursor).command).to.equal(process.execPath)
    expect(JSON.parse(readFileSync(cursor, 'utf8')).mcpServers.missing).to.deep.equal(missing)
    expect(existsSync(join(home.project, 'mcp-servers', 'missing'))).to.equal(false)
  })

  it('keeps an installed command with variables of the client in its entry', async () => {
    const entry = { ...npxEntry, args: [...npxEntry.args, `--root=${folder}`] }
    const cursor = home.write('Cursor', { mcpServers: { files: entry } })
    expect(await home.run('--yes')).to.include({ code: 0, err: '' })
    const { args = [], ...rest } = entryIn(cursor)
    expect(args)
      .to.include(at('node_modules', '.bin', packageName))
      .and.not.include('command: npx')
    await using client = await connected(home, {
      ...rest,
      args: args.map((arg) => arg.replace(folder, '/srv')),
    })
    expect(JSON.parse(await say(client, 'argv'))).to.deep.equal(['', '--verbose', '--root=/srv'])
  })

  it('keeps a package that its owner has updated since', async () => {
    home.write('Cursor', { mcpServers: { files: npxEntry } })
    await home.run('--yes')
    writeFileSync(at('package-lock.json'), '{}')
    const { out } = await home.run('--undo', '--yes')
    expect(out).to.include('Stays           mcp-servers/files/package-lock.json: changed since init wrote it')
    expect(existsSync(at('node_modules', packageName))).to.equal(true)
  })

  it('changes nothing if there is another directory of that name', async () => {
    home.write('Cursor', { mcpServers: { files: npxEntry } })
    await home.run('--yes')
    await home.run('--undo', '--yes')
    home.write('Cursor', { mcpServers: { files: npxEntry } })
    writeFileSync(join(home.project, 'mcp-servers'), '')
    const before = home.content()
    const { code, err } = await home.run('--yes')
    expect({ code, err }).to.deep.include({ code: 1 })
    expect(err).to.include('Nothing was changed.')
    const { '.npm': _, ...now } = home.content()
    expect(now).to.include(before)
  })
})
