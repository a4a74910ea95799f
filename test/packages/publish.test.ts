// Publishes the packages to a registry, installs them from there into an empty project, and uses them on every supported
// version of Node.
import { existsSync } from 'node:fs'
import { cp, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, join, posix } from 'node:path'
import { checkPackage, createPackageFromTarballData, type Package } from '@arethetypeswrong/core'
import { expect } from 'chai'
import { publint } from 'publint'
import { startQuickStart } from '../support/quick-start.js'
import { pathOf, runtimes } from '../support/runtimes.js'
import {
  type Manifest,
  manifestIn,
  Npm,
  publishedFolders,
  type Registry,
  root,
  run,
  startRegistry,
} from './npm.js'

describe('the published packages', function () {
  this.timeout(180_000)
  let home: string
  let project: string
  let registry: Registry
  let npm: Npm
  let warnings: string[]

  before(async () => {
    home = await mkdtemp(join(tmpdir(), 'svc-packages-'))
    project = join(home, 'project')
    registry = await startRegistry(join(home, 'registry'))
    npm = new Npm(registry.url, join(home, 'cache'))
    warnings = await npm.publish(root, publishedFolders())
    await cp(join(root, 'test/fixtures/consumer'), project, { recursive: true })
    await writeFile(join(project, 'package.json'), '{ "private": true, "type": "module" }')
    await npm.install(project, 'svc-sdk')
    const readme = await readFile(join(project, 'node_modules/svc-sdk/README.md'), 'utf8')
    await writeFile(join(project, 'policy.yaml'), /```yaml\n(.*?)```/s.exec(readme)?.[1] ?? '')
    await svc(['keys', 'generate', '--out', '.svc/signing.key'])
  })

  after(async () => {
    await registry[Symbol.asyncDispose]()
    await rm(home, { recursive: true })
  })

  /** Runs the command, which npx must not install. */
  const svc = (args: string[], env?: { PATH: string }) =>
    run('npx', ['--no', '--', 'svc-sdk', ...args], project, env)

  const bytesOf = ({ name, version }: Manifest) =>
    readFile(join(home, 'registry', name, `${basename(name)}-${version}.tgz`))

  it('are published without a correction by npm', () => {
    expect(warnings).to.deep.equal([])
  })

  for (const folder of publishedFolders()) {
    const manifest = manifestIn(join(root, folder))

    describe(manifest.name, () => {
      let bytes: Buffer
      let files: Package

      before(async () => {
        bytes = await bytesOf(manifest)
        files = createPackageFromTarballData(new Uint8Array(bytes))
      })

      it('passes publint', async () => {
        const tarball = new Uint8Array(bytes).buffer
        const { messages } = await publint({ pack: { tarball }, strict: true })
        expect(messages).to.deep.equal([])
      })

      it('has types that agree with its modules', async () => {
        // Packages are ESM alone; Node 20.19 and later `require` that too.
        const { problems } = (await checkPackage(files, { excludeEntrypoints: [/\.yaml$/] })) as {
          problems: { kind: string; resolutionKind?: string }[]
        }
        const found = problems.filter(({ kind }) => kind !== 'CJSResolvesToESM')
        expect(found).to.deep.equal([])
      })

      it('carries its licence, its README and the source of every module', () => {
        const names = files.listFiles().map((path) => path.replace(`/node_modules/${manifest.name}/`, ''))
        expect(names).to.include.members(['LICENSE', 'README.md', 'package.json'])
        // The maps of the bundle name the sources, which the maps beside the modules have.
        const modules = names.filter((name) => /^dist\/(?!bundle\/|console\/assets\/).*\.js$/.test(name))
        const unmapped = modules.filter(
          (name) => !mapsToSource(files, `/node_modules/${manifest.name}/${name}.map`),
        )
        expect(modules).to.not.equal([])
        expect(unmapped).to.deep.equal([])
      })

      it('has pages whose links lead to files of the package only', () => {
        const pages = files.listFiles().filter((path) => path.endsWith('.md'))
        const broken = pages.flatMap((page) =>
          [...files.readFile(page).matchAll(/\]\((?!https?:|#)([^)#\s]+)/g)]
            .map(([, target]) => posix.join(posix.dirname(page), target ?? ''))
            .filter((path) => !files.fileExists(path) && !files.directoryExists(path)),
        )
        expect(broken).to.deep.equal([])
      })
    })
  }

  it('install a single copy of core', async () => {
    const paths = await readdir(join(project, 'node_modules'), { recursive: true })
    expect(paths.filter((path) => path.endsWith('@svc/core/package.json'))).to.deep.equal([
      '@svc/core/package.json',
    ])
  })

  it('take under 70 MB, under 50 MB without optional dependencies, and do not install the AWS SDK', async () => {
    const lock = await readFile(join(project, 'package-lock.json'), 'utf8')
    const { packages } = JSON.parse(lock) as { packages: Record<string, { optional?: boolean }> }
    // What `--omit=optional` leaves out.
    const left = Object.keys(packages).filter((path) => packages[path]?.optional === true)
    const optional = left.filter((path) => !left.some((other) => path.startsWith(`${other}/`)))
    const all = await megabytesIn(join(project, 'node_modules'))
    const sizes = await Promise.all(optional.map((path) => megabytesIn(join(project, path))))
    expect(all).to.be.below(70)
    expect(all - sizes.reduce((sum, size) => sum + size, 0)).to.be.below(50)
    expect(await readdir(join(project, 'node_modules'))).not.to.include('@aws-sdk')
  })

  it('contain the documentation, and the examples that it cites', async () => {
    const pages = [
      'docs/writing-a-stage.md',
      'docs/reference/policy.md',
      'examples/custom-stage/change-freeze.ts',
    ]
    const carried = await readdir(join(project, 'node_modules/svc-sdk'), { recursive: true })
    expect(carried).to.include.members(pages)
  })

  it('install a command whose help has the name under which it was run', async () => {
    const { stdout } = await svc(['--help'])
    expect(stdout).to.match(/^Usage: svc-sdk /)
  })

  it('have types with which a program compiles', async () => {
    const compiler = join(root, 'node_modules/typescript/bin/tsc')
    const { stdout } = await run(
      process.execPath,
      [compiler, '-p', '.', '--typeRoots', join(root, 'node_modules/@types')],
      project,
    )
    expect(stdout).to.equal('')
  })

  describe('allow an upgrade of one plugin', () => {
    const name = '@svc/plugin-quotas'

    let upgraded: string

    /** Makes the plugin in `folder` another version, which is written for `core`. */
    const rewrite = async (folder: string, version: string, core: string): Promise<void> => {
      const edit = async (file: string, change: (text: string) => string) =>
        writeFile(join(folder, file), change(await readFile(join(folder, file), 'utf8')))
      await edit('package.json', (text) => {
        const manifest: unknown = JSON.parse(text)
        return JSON.stringify(
          Object.assign({}, manifest, { version, peerDependencies: { '@svc/core': core } }),
        )
      })
      await edit('dist/plugin.js', (text) =>
        text.replace(/version: '[^']*'/, `version: '${version}'`).replace(/core: '[^']*'/, `core: '${core}'`),
      )
    }

    before(async () => {
      const source = join(home, 'quotas')
      await cp(join(project, 'node_modules', name), source, { recursive: true })
      await rewrite(source, '1.9.0', '^1.0.0')
      await npm.publish(source)
      upgraded = join(home, 'upgraded')
      await run('cp', ['-a', project, upgraded], home)
      await writeFile(
        join(upgraded, 'package.json'),
        JSON.stringify({
          private: true,
          type: 'module',
          dependencies: { 'svc-sdk': '*' },
          overrides: { [name]: '1.9.0' },
        }),
      )
      await npm.install(upgraded)
      const policy = join(upgraded, 'policy.yaml')
      const entry = '\nplugins: [{ use: quotas, version: 1.9.0 }]\n'
      await writeFile(policy, (await readFile(policy, 'utf8')) + entry)
    })

    const start = async () =>
      run(process.execPath, ['smoke.mjs', await mkdtemp(join(home, 'state-'))], upgraded)

    it('a gateway starts with a plugin that was written for its core', async () => {
      const installed = ['quotas', 'audit'].map(
        (one) => manifestIn(join(upgraded, `node_modules/@svc/plugin-${one}`)).version,
      )
      expect(installed).to.deep.equal(['1.9.0', manifestIn(join(root, 'plugins/audit')).version])
      expect((await start()).stdout).to.contain('"allowed":[200,')
    })

    it('the command checks a policy with the plugin that is installed, which its bundle does not have', async () => {
      const args = ['node_modules/svc-sdk/bin/svc.js', 'policy', 'check', 'policy.yaml']
      const { stdout } = await run(process.execPath, args, upgraded)
      expect(stdout).to.match(/^policy\.yaml: OK/m)
    })

    it('a gateway refuses a plugin that was written for another core, and names both versions', async () => {
      // npm installs such a plugin if it ignores peers.
      await rewrite(join(upgraded, 'node_modules', name), '2.0.0', '^2.0.0')
      const policy = join(upgraded, 'policy.yaml')
      await writeFile(policy, (await readFile(policy, 'utf8')).replace('version: 1.9.0', 'version: 2.0.0'))
      const error = await start().then(
        () => 'started',
        ({ message }: Error) => message,
      )
      const { version } = manifestIn(join(root, 'core'))
      expect(error).to.contain(`plugin "quotas" 2.0.0 was written for core ^2.0.0; this core is ${version}`)
    })
  })

  describe('contain examples that are separate projects', () => {
    /** Copies the example out of the package, and installs and builds it there, as the pages say; npm finds most of it there. */
    const copyExample = async (name: string) => {
      const folder = join(home, name)
      await cp(join(project, 'node_modules/svc-sdk/examples', name), folder, { recursive: true })
      await run('cp', ['-a', join(project, 'node_modules'), folder], home)
      await npm.install(folder)
      return folder
    }

    it('custom-stage builds, and its policy is valid', async () => {
      const folder = await copyExample('custom-stage')
      await run('npm', ['run', 'build'], folder)
      await run('npx', ['--no', '--', 'svc-sdk', 'keys', 'generate', '--out', '.svc/signing.key'], folder)
      const { stdout } = await run('npx', ['--no', '--', 'svc-sdk', 'policy', 'check', 'policy.yaml'], folder)
      expect(stdout).to.match(/^policy\.yaml: OK, \d+ stages: .*change_freeze/m)
    })

    it('quick-start starts and serves the call of its page', async () => {
      const folder = await copyExample('quick-start')
      await run('npm', ['run', 'build'], folder)
      await using example = startQuickStart(folder)
      const url = await example.prints(/^The gateway listens on (\S+)/m)
      const page = await readFile(join(project, 'node_modules/svc-sdk/docs/quick-start.md'), 'utf8')
      const [, path = '', body = ''] = /8787(\/mcp\/\S+).*?-d '([^']*)'/s.exec(page) ?? []
      const headers = { 'content-type': 'application/json' }
      const response = await fetch(`${url}${path}`, { method: 'POST', headers, body })
      expect(await response.json()).to.include({ id: 'INV-1001', customer: 'Harbour Bakery' })
      example.kill('SIGTERM')
      expect(await example.exit).to.equal(0)
    })
  })

  for (const runtime of runtimes()) {
    describe(`on Node ${runtime.version}`, () => {
      let smoke: ReturnType<typeof run>
      let command: ReturnType<typeof run>

      // The processes run at the same time, as each takes a second of one core.
      before(async () => {
        smoke = run(runtime.node, ['smoke.mjs', await mkdtemp(join(home, 'state-'))], project)
        command = svc(['policy', 'check', 'policy.yaml'], pathOf(runtime))
        await Promise.allSettled([smoke, command])
      })

      it('serve calls and write logs that verify', async () => {
        const { stdout, stderr } = await smoke
        expect(stderr).to.equal('')
        expect(JSON.parse(stdout.split('\n').at(-2) ?? '')).to.deep.equal({
          node: runtime.version,
          allowed: [200, { id: 'INV-1001' }],
          denied: 403,
          logs: [
            ['intact', 1],
            ['intact', 2],
          ],
        })
      })

      it('run the command', async () => {
        const { stdout } = await command
        expect(stdout).to.match(/^policy\.yaml: OK, 7 stages: /)
      })
    })
  }
})

/** 0 for a package of another platform, which npm did not install. */
async function megabytesIn(folder: string): Promise<number> {
  if (!existsSync(folder)) return 0
  const entries = await readdir(folder, { recursive: true, withFileTypes: true })
  const files = entries.filter((entry) => entry.isFile())
  const sizes = await Promise.all(
    files.map(async ({ parentPath, name }) => (await stat(join(parentPath, name))).size),
  )
  return sizes.reduce((sum, size) => sum + size, 0) / 2 ** 20
}

function mapsToSource(files: Package, path: string): boolean {
  const { sources, sourcesContent } = JSON.parse(files.readFile(path)) as {
    sources: string[]
    sourcesContent?: (string | null)[]
  }
  return sourcesContent?.length === sources.length && sourcesContent.every((text) => text !== null)
}
