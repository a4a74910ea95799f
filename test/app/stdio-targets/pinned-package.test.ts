import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect } from 'chai'
import { PinnedPackage } from 'svc-sdk/internal/stdio-targets/pinned-package'
import type { TestGateway } from '../../support/gateway.js'
import { isAlive, until, withStdio } from '../../support/stdio-target.js'

const scripted = fileURLToPath(new URL('../../support/scripted-server.js', import.meta.url))
const name = 'svc-test-mcp-server'

/** Packages that some test has packed. */
const packed = new Map<string, Buffer>()

function pack(home: string, version: string): Buffer {
  const folder = join(home, version)
  mkdirSync(folder)
  const scripts = { postinstall: "node -e \"require('fs').writeFileSync('installed','')\"" }
  const manifest = { name, version, type: 'module', bin: 'server.js', scripts }
  writeFileSync(join(folder, 'package.json'), JSON.stringify(manifest))
  writeFileSync(join(folder, 'server.js'), `#!/usr/bin/env node\n${readFileSync(scripted, 'utf8')}`)
  execFileSync('npm', ['pack', '--silent', '--ignore-scripts'], { cwd: folder })
  return readFileSync(join(folder, `${name}-${version}.tgz`))
}

/** A registry of one package, which is an MCP server with an install script. */
class Registry {
  readonly versions = new Map<string, { bytes: Buffer; integrity: string }>()
  #home: string
  #server: Server

  constructor(home: string) {
    this.#home = home
    this.#server = createServer(({ url = '' }, response) => {
      const [, version] = /-\/(.*)\.tgz$/.exec(url) ?? []
      if (version !== undefined) return void response.end(this.versions.get(version)?.bytes)
      response.setHeader('content-type', 'application/json')
      response.end(JSON.stringify(this.#packument()))
    })
  }

  async start(): Promise<void> {
    await new Promise<void>((resolve) => this.#server.listen(0, '127.0.0.1', resolve))
  }

  stop(): Promise<void> {
    this.#server.closeAllConnections()
    return new Promise((resolve) => this.#server.close(() => resolve()))
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}/`
  }

  publish(version: string): void {
    const bytes = packed.get(version) ?? pack(this.#home, version)
    packed.set(version, bytes)
    const integrity = `sha512-${createHash('sha512').update(bytes).digest('base64')}`
    this.versions.set(version, { bytes, integrity })
  }

  #packument(): object {
    const entries = [...this.versions].map(([version, { integrity }]) => {
      const dist = { integrity, tarball: `${this.url}${name}/-/${version}.tgz` }
      return [version, { name, version, bin: { [name]: 'server.js' }, hasInstallScript: true, dist }]
    })
    return {
      name,
      'dist-tags': { latest: [...this.versions.keys()].at(-1) },
      versions: Object.fromEntries(entries),
    }
  }
}

describe('a pinned package', function () {
  this.timeout(120_000)
  const given = { ...process.env }
  let home: string
  let registry: Registry

  beforeEach(async () => {
    home = mkdtempSync(join(tmpdir(), 'svc-pin-'))
    registry = new Registry(home)
    await registry.start()
    registry.publish('1.0.0')
    process.env['npm_config_registry'] = registry.url
    process.env['npm_config_cache'] = join(home, 'cache')
  })

  afterEach(async () => {
    await registry.stop()
    for (const variable of ['PATH', 'npm_config_registry', 'npm_config_cache']) {
      if (given[variable] === undefined) delete process.env[variable]
      else process.env[variable] = given[variable]
    }
    rmSync(home, { recursive: true })
  })

  const folder = () => join(home, 'state', 'stdio', name)
  const run = (use: (gateway: TestGateway) => Promise<void>) =>
    withStdio({ command: 'npx', args: ['-y', name, ''], pin: true }, use, { sec0Dir: join(home, 'state') })
  const echo = async (gateway: TestGateway) =>
    (await gateway.invoke('/mcp/files/echo@3.1.0', { said: 'hi' })).text()

  it('runs from a lock file that its first start writes, without install scripts', async () => {
    await run(async (gateway) => {
      expect(await echo(gateway)).to.include('"hi"')
      const [running = ''] = readdirSync(folder()).filter((entry) => entry.startsWith('run-'))
      expect(existsSync(join(folder(), running, 'node_modules', name, 'installed'))).to.equal(false)
    })
    registry.publish('2.0.0')
    await run(async (gateway) => {
      expect(await echo(gateway)).to.include('"hi"')
      const lock = readFileSync(join(folder(), 'lock', 'package-lock.json'), 'utf8')
      expect(JSON.parse(lock)).to.have.nested.property(`packages.node_modules/${name}.version`, '1.0.0')
    })
    expect(readdirSync(folder())).to.deep.equal(['lock'])
  })

  it('is not run if the package of the registry differs from the lock', async () => {
    await run(async (gateway) => {
      expect(await echo(gateway)).to.include('"hi"')
    })
    const changed = registry.versions.get('1.0.0')
    registry.publish('1.0.1')
    const other = registry.versions.get('1.0.1')
    if (changed === undefined || other === undefined) throw new Error('not published')
    registry.versions.set('1.0.0', { ...changed, bytes: other.bytes })
    rmSync(join(home, 'cache'), { recursive: true })
    await run(async (gateway) => {
      expect(await echo(gateway))
        .to.include('is not running')
        .and.not.include('npm')
      expect(JSON.stringify(gateway.log.lines)).to.include('npm ci failed: npm error code EINTEGRITY')
    })
  })

  it('is no longer installed, and leaves no files, when the gateway stops', async () => {
    const npm = join(home, 'bin', 'npm')
    const pidFile = join(home, 'pid')
    mkdirSync(join(home, 'bin'))
    writeFileSync(npm, `#!/bin/sh\necho $$ >${pidFile}.new && mv ${pidFile}.new ${pidFile}\nexec sleep 600\n`)
    chmodSync(npm, 0o755)
    process.env['PATH'] = `${join(home, 'bin')}:${given['PATH']}`
    const pinned = new PinnedPackage({ spec: name, name, args: [] }, join(home, 'state'))
    const program = pinned.program().catch((error: unknown) => String(error))
    await until(() => existsSync(pidFile))
    const pid = Number(readFileSync(pidFile, 'utf8'))
    await pinned.close()
    expect(await program).to.equal('Error: the gateway is closing')
    await until(() => !isAlive(pid))
    expect(readdirSync(folder())).to.deep.equal([])
  })
})
