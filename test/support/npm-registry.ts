// A registry of npm on loopback with one package: an MCP server that has an install script.
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { TemporaryDir } from './temporary-dir.js'

const scripted = fileURLToPath(new URL('./scripted-server.js', import.meta.url))
export const packageName = 'svc-test-mcp-server'

/** Packages that some test has packed. */
const packed = new Map<string, Buffer>()

function pack(home: string, version: string): Buffer {
  const folder = join(home, version)
  mkdirSync(folder)
  const scripts = { postinstall: "node -e \"require('fs').writeFileSync('installed','')\"" }
  const manifest = { name: packageName, version, type: 'module', bin: 'server.js', scripts }
  writeFileSync(join(folder, 'package.json'), JSON.stringify(manifest))
  writeFileSync(join(folder, 'server.js'), `#!/usr/bin/env node\n${readFileSync(scripted, 'utf8')}`)
  execFileSync('npm', ['pack', '--silent', '--ignore-scripts'], { cwd: folder })
  return readFileSync(join(folder, `${packageName}-${version}.tgz`))
}

/** A registry of one package, which is an MCP server with an install script. */
export class NpmRegistry implements AsyncDisposable {
  readonly versions = new Map<string, { bytes: Buffer; integrity: string }>()
  readonly #home = new TemporaryDir()
  readonly #server: Server

  constructor() {
    this.#server = createServer(({ url = '' }, response) => {
      const [, version] = /-\/(.*)\.tgz$/.exec(url) ?? []
      if (version !== undefined) return void response.end(this.versions.get(version)?.bytes)
      response.setHeader('content-type', 'application/json')
      response.end(JSON.stringify(this.#packument()))
    })
  }

  /** The variables with which npm asks this registry alone, and keeps nothing of what it got. */
  get env(): Record<string, string> {
    return { npm_config_registry: this.url, npm_config_cache: join(this.#home.path, 'cache') }
  }

  async start(): Promise<void> {
    await new Promise<void>((resolve) => this.#server.listen(0, '127.0.0.1', resolve))
  }

  [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections()
    this.#home[Symbol.dispose]()
    return new Promise((resolve) => this.#server.close(() => resolve()))
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}/`
  }

  publish(version: string): void {
    const bytes = packed.get(version) ?? pack(this.#home.path, version)
    packed.set(version, bytes)
    const integrity = `sha512-${createHash('sha512').update(bytes).digest('base64')}`
    this.versions.set(version, { bytes, integrity })
  }

  #packument(): object {
    const entries = [...this.versions].map(([version, { integrity }]) => {
      const dist = { integrity, tarball: `${this.url}${packageName}/-/${version}.tgz` }
      return [
        version,
        { name: packageName, version, bin: { [packageName]: 'server.js' }, hasInstallScript: true, dist },
      ]
    })
    return {
      name: packageName,
      'dist-tags': { latest: [...this.versions.keys()].at(-1) },
      versions: Object.fromEntries(entries),
    }
  }
}
