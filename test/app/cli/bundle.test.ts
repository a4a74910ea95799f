import { execFileSync } from 'node:child_process'
import { mkdirSync, rmSync, statSync, utimesSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect } from 'chai'
import { isCurrent } from 'svc-sdk/internal/cli/bundle'
import { temporaryDir } from '../../support/temporary-dir.js'

const repository = fileURLToPath(new URL('../../../../', import.meta.url))

/** What is beside the bundle, and whether the command uses it. */
const cases: Readonly<Record<string, { used: boolean; change(root: string): void }>> = {
  'the packages that it was made from': { used: true, change: () => undefined },
  'another version of a plugin': {
    used: false,
    change: (root) => writeManifest(join(root, 'node_modules/@svc/plugin-quotas'), '1.0.1'),
  },
  'another version of a library of a plugin': {
    used: false,
    change: (root) => writeManifest(join(root, 'node_modules/jose'), '6.0.1'),
  },
  'a plugin that has another version of a library below it': {
    used: false,
    change: (root) => writeManifest(join(root, 'node_modules/@svc/plugin-quotas/node_modules/jose'), '6.0.1'),
  },
  'a library that is missing': {
    used: false,
    change: (root) => rmSync(join(root, 'node_modules/jose'), { recursive: true }),
  },
  'a plugin that was built before it': { used: true, change: (root) => build(root, 'plugin-quotas', -1) },
  'a plugin that was built after it': { used: false, change: (root) => build(root, 'plugin-quotas', 1) },
  'no list of its parts': {
    used: false,
    change: (root) => rmSync(join(root, 'node_modules/svc-sdk/dist/bundle/parts.json')),
  },
}

describe('the bundle of the command', () => {
  const dir = temporaryDir()

  beforeEach(() => {
    writeManifest(join(dir.path, 'node_modules/@svc/plugin-quotas'), '1.0.0')
    writeManifest(join(dir.path, 'node_modules/jose'), '6.0.0')
    write(
      join(dir.path, 'node_modules/svc-sdk/dist/bundle/parts.json'),
      JSON.stringify([
        { owner: 'svc-sdk', name: '@svc/plugin-quotas', version: '1.0.0' },
        { owner: '@svc/plugin-quotas', name: 'jose', version: '6.0.0' },
      ]),
    )
  })

  for (const [what, { used, change }] of Object.entries(cases)) {
    it(`is ${used ? 'used' : 'not used'} beside ${what}`, () => {
      change(dir.path)
      expect(isCurrent(join(dir.path, 'node_modules/svc-sdk'))).to.equal(used)
    })
  }

  it('is not made again from the same files, as processes that run it load parts of it later', () => {
    const bundle = () => {
      execFileSync(process.execPath, [join(repository, 'scripts/bundle.mjs'), '--required'])
      return statSync(join(repository, 'app/dist/bundle/start.js')).ino
    }
    expect([bundle(), isCurrent(join(repository, 'app'))]).to.deep.equal([bundle(), true])
  }).timeout(120_000)
})

function writeManifest(folder: string, version: string): void {
  write(join(folder, 'package.json'), JSON.stringify({ version }))
}

/** `seconds` after the bundle. */
function build(root: string, plugin: string, seconds: number): void {
  const file = join(root, 'node_modules/@svc', plugin, 'dist/tsconfig.tsbuildinfo')
  write(file, '')
  const time = Date.now() / 1000 + seconds
  utimesSync(file, time, time)
}

function write(file: string, text: string): void {
  mkdirSync(dirname(file), { recursive: true })
  writeFileSync(file, text)
}
