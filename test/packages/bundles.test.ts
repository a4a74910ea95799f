// What docs/bundlers.md says: programs bundled by esbuild, in both module formats, and their types with `module: commonjs`.
import { execFile } from 'node:child_process'
import { mkdirSync, readdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { generateKeyFile } from '@svc/plugin-audit/log'
import { expect } from 'chai'
import { build } from 'esbuild'
import { startCloud } from '../plugins/audit/log/upload/cloud.js'
import { temporaryDir } from '../support/temporary-dir.js'

const fromRoot = (path: string) => fileURLToPath(new URL(`../../../${path}`, import.meta.url))
const run = promisify(execFile)

/** Bundled packages have native parts, which the program finds installed. */
const native = ['fs-native-extensions', 'sodium-native']

/** Dependencies in CommonJS require modules of Node, which an ES module cannot without this. */
const banner = "const require = process.getBuiltinModule('node:module').createRequire(import.meta.url)"

describe('a program bundled by esbuild', function () {
  this.timeout(60_000)

  const dir = temporaryDir()
  beforeEach(() => {
    mkdirSync(join(dir.path, 'node_modules'))
  })

  async function bundled(name: string, format: 'esm' | 'cjs', external: string[] = []): Promise<string> {
    const outfile = join(dir.path, `${name}.${format === 'esm' ? 'mjs' : 'cjs'}`)
    const entry = fromRoot(`test/fixtures/bundled/${name}.ts`)
    await build({
      entryPoints: [entry],
      outfile,
      bundle: true,
      platform: 'node',
      format,
      external,
      ...(format === 'esm' ? { banner: { js: banner } } : {}),
      logLevel: 'error',
      absWorkingDir: fromRoot('test'),
    })
    return outfile
  }

  const install = (name: string) =>
    symlinkSync(fromRoot(`node_modules/${name}`), join(dir.path, 'node_modules', name))

  for (const format of ['esm', 'cjs'] as const) {
    it(`writes, uploads and verifies a log without files of threads (${format})`, async () => {
      native.forEach(install)
      generateKeyFile(join(dir.path, 'audit.key'))
      await using cloud = await startCloud()
      const program = await bundled('audit', format)
      const { stdout, stderr } = await run(process.execPath, [program, dir.path, cloud.url], {
        cwd: dir.path,
      })
      expect([stdout, stderr]).to.deep.equal(['{"verdict":"intact","records":1200}', ''])
      const stored = [...cloud.objects.keys()].filter((key) => key.includes('records'))
      expect(stored, [...cloud.objects.keys()].join()).to.not.equal([])
      expect(readdirSync(dir.path).filter((name) => name.includes('worker'))).to.deep.equal([])
    })

    it(`mounts a gateway that is not bundled (${format})`, async () => {
      install('svc-sdk')
      generateKeyFile(join(dir.path, 'audit.key'))
      const policy = join(dir.path, 'policy.yaml')
      writeFileSync(
        policy,
        `tenant: acme
targets: { files: "http://127.0.0.1:9" }
audit: { gatewayName: g, gatewayVersion: 1.0.0, signer: { keyRef: file://audit.key } }
quotas: { adapter: memory }
authn: { allowUnauthenticated: true }
entitlements: open
`,
      )
      const program = await bundled('middleware', format, ['svc-sdk'])
      const { stdout } = await run(process.execPath, [program, policy], { cwd: dir.path })
      expect(stdout).to.equal('404')
    })
  }

  it('has types with module: commonjs', async () => {
    const names = ['svc-sdk', '@svc', '@types', 'tsyringe', 'pino']
    names.forEach(install)
    writeFileSync(
      join(dir.path, 'typed.ts'),
      `import { SvcAppender } from 'svc-sdk/audit'
import { mountGateway } from 'svc-sdk/node'
import { definePlugin } from 'svc-sdk/core'
const close: Promise<void> = new SvcAppender({} as ConstructorParameters<typeof SvcAppender>[0]).close()
// @ts-expect-error: a policy is needed, so the types are there
mountGateway(1)
export { close, definePlugin }
`,
    )
    const options = ['--noEmit', '--skipLibCheck', '--strict', '--module', 'commonjs', '--target', 'es2022']
    const tsc = fromRoot('node_modules/typescript/bin/tsc')
    const said = await run(process.execPath, [tsc, ...options, '--types', 'node', 'typed.ts'], {
      cwd: dir.path,
    }).then(
      () => '',
      (error: { stdout: string }) => error.stdout,
    )
    expect(said).to.equal('')
  })
})
