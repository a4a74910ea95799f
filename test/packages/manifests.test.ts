// Runs scripts/manifests.mjs on small workspaces that have one mistake each.
import { cp, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { expect } from 'chai'
import { root, run } from './npm.js'

const script = join(root, 'scripts/manifests.mjs')
const files = ['package.json', 'README.md', 'LICENSE']

/** Each changes the plugin `privacy`, at a version of its own choice. */
const mistakes: Record<string, { file?: string; from: RegExp; to: string; says: string }> = {
  'a field that is missing': {
    from: /"publishConfig": \{[^}]*\},/,
    to: '',
    says: 'publishConfig must be {"access":"public"}',
  },
  'no keywords': { from: /"keywords": \[[^\]]*\]/, to: '"keywords": []', says: 'keywords is missing' },
  'another folder as its repository': {
    from: /"directory": "[^"]*"/,
    to: '"directory": "core"',
    says: 'repository must be ',
  },
  'core as a dependency': {
    from: /"dependencies": \{/,
    to: '"dependencies": { "@svc/core": "^1.0.0",',
    says: 'dependencies must not name @svc/core',
  },
  'a peer range that leaves out the core of the workspace': {
    from: /("peerDependencies": \{\s*"@svc\/core": ")[^"]*/,
    to: '$1^7.0.0',
    says: 'peerDependencies asks for @svc/core ^7.0.0; the workspace holds ',
  },
  'a peer range without a caret': {
    from: /("peerDependencies": \{\s*"@svc\/core": ")[^"]*/,
    to: '$1>=0.1.0',
    says: 'peerDependencies asks for @svc/core >=0.1.0; the workspace holds ',
  },
  'another range of core in plugin.ts': {
    file: 'plugin.ts',
    from: /core: '[^']*'/,
    to: "core: '^7.0.0'",
    says: 'plugin.ts asks for core ^7.0.0, peerDependencies for ^1.0.0',
  },
  'another version of core than the workspace holds': {
    from: /"devDependencies": \{\s*"@svc\/core": "[^"]*"/,
    to: '"devDependencies": { "@svc/core": "7.0.0"',
    says: 'devDependencies asks for @svc/core 7.0.0',
  },
  'another version in plugin.ts': {
    file: 'plugin.ts',
    from: /version: '[^']*'/,
    to: "version: '7.0.0'",
    says: 'plugin.ts says version 7.0.0',
  },
  'another licence': {
    file: 'LICENSE',
    from: /Apache/,
    to: 'Apathy',
    says: 'LICENSE must be a copy of /LICENSE',
  },
  'an unlisted import for its effect': {
    file: 'plugin.ts',
    from: /^import /m,
    to: "import 'reflect-metadata'\nimport ",
    says: 'sideEffects must list ./dist/plugin.js',
  },
}

describe('scripts/manifests.mjs', () => {
  let copy: string

  beforeEach(async () => {
    copy = await mkdtemp(join(tmpdir(), 'svc-manifests-'))
    await cp(join(root, 'LICENSE'), join(copy, 'LICENSE'))
    await writeFile(
      join(copy, 'package.json'),
      JSON.stringify({ workspaces: ['core', 'plugins/*'], engines: { node: '>=20.19' } }),
    )
    await mkdir(join(copy, 'plugins/privacy'), { recursive: true })
    await mkdir(join(copy, 'core'))
    for (const folder of ['core', 'plugins/privacy']) {
      for (const file of files) await cp(join(root, folder, file), join(copy, folder, file))
    }
    await cp(join(root, 'plugins/privacy/plugin.ts'), join(copy, 'plugins/privacy/plugin.ts'))
  })

  afterEach(() => rm(copy, { recursive: true }))

  const check = (...args: string[]) => run(process.execPath, [script, ...args, copy], root)

  it('accepts this workspace', async () => {
    await run(process.execPath, [script], root)
  })

  for (const [title, { file = 'package.json', from, to, says }] of Object.entries(mistakes)) {
    it(`refuses ${title}`, async () => {
      const path = join(copy, 'plugins/privacy', file)
      const text = await readFile(path, 'utf8')
      expect(text).to.match(from)
      await writeFile(path, text.replace(from, to))
      const outcome = await check().then(
        () => 'accepted',
        (error: Error) => error.message,
      )
      expect(outcome).to.contain(`plugins/privacy: ${says}`)
    })
  }

  it('refuses a published package that needs a private one', async () => {
    const path = join(copy, 'core/package.json')
    await writeFile(path, (await readFile(path, 'utf8')).replace('{', '{ "private": true,'))
    const outcome = await check().catch((error: Error) => error.message)
    expect(outcome).to.contain('plugins/privacy: peerDependencies names @svc/core, which is private')
  })

  it('copies the version of a package into its plugin.ts with --write', async () => {
    const manifest = join(copy, 'plugins/privacy/package.json')
    await writeFile(
      manifest,
      (await readFile(manifest, 'utf8')).replace(/"version": "[^"]*"/, '"version": "7.1.0"'),
    )
    await check('--write')
    expect(await readFile(join(dirname(manifest), 'plugin.ts'), 'utf8')).to.contain("version: '7.1.0',")
  })
})
