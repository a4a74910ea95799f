import { readFileSync } from 'node:fs'
import { dirname, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect } from 'chai'

const root = fileURLToPath(new URL('../../../../..', import.meta.url))

/** Built modules of this repository and names of other packages that `module` loads statically, itself included. */
function loadedBy(module: string, seen = new Set<string>()): Set<string> {
  if (seen.has(module)) return seen
  seen.add(module)
  const source = readFileSync(new URL(module), 'utf8')
  for (const [, name = ''] of source.matchAll(/^(?:import|export) (?:[^;']*?from )?'([^']+)'/gm)) {
    if (name.startsWith('.')) loadedBy(new URL(name, module).href, seen)
    else if (name.startsWith('@svc/')) loadedBy(import.meta.resolve(name), seen)
    else seen.add(name)
  }
  return seen
}

const isOurs = (name: string) => name.startsWith('file:')
const packagesOf = (module: string) =>
  [...loadedBy(module)].filter((name) => !isOurs(name) && !name.startsWith('node:'))
const foldersOf = (module: string) =>
  new Set([...loadedBy(module)].filter(isOurs).map((name) => relative(root, dirname(fileURLToPath(name)))))

describe('svc-sdk/audit and svc-sdk/signer', () => {
  for (const name of ['svc-sdk/audit', 'svc-sdk/signer']) {
    it(`loads no container, schema or policy code: ${name}`, () => {
      expect(packagesOf(import.meta.resolve(name))).to.deep.equal([])
    })
  }

  it('load the log library, and of core only JSON, directories, threads and the folding of names', () => {
    const others = [...foldersOf(import.meta.resolve('svc-sdk/audit'))].filter(
      (folder) => !folder.startsWith('plugins/audit/dist/log'),
    )
    expect(others.sort()).to.deep.equal([
      'app/dist',
      'core/dist/disk',
      'core/dist/json',
      'core/dist/match',
      'core/dist/thread',
    ])
  })
})

describe('svc-sdk/signer', () => {
  it('loads only the signing modules of the log', () => {
    const folders = [...foldersOf(import.meta.resolve('svc-sdk/signer'))]
    expect(folders.filter((folder) => /log\/(?:writer|seal|tree|upload|tools)/.test(folder))).to.deep.equal(
      [],
    )
  })
})

describe('@svc/plugin-audit/log', () => {
  it('loads none of the tools, which are @svc/plugin-audit/tools', () => {
    const toolsOf = (module: string) =>
      [...foldersOf(import.meta.resolve(module))].filter((folder) => folder.includes('/log/tools'))
    expect(toolsOf('@svc/plugin-audit/log')).to.deep.equal([])
    expect(toolsOf('@svc/plugin-audit/tools')).to.include('plugins/audit/dist/log/tools/read')
  })
})

describe('svc-sdk/audit', () => {
  it('loads nothing that opens, seals, reads or verifies a log before its first use', () => {
    const loaded = [...loadedBy(import.meta.resolve('svc-sdk/audit'))].filter(isOurs)
    const early =
      /log\/(?:cosigning\/cosigning|merkle|seal|tools\/.*\/|writer\/(?:agent|log-(?!directory)|open))/
    expect(loaded.filter((name) => early.test(name))).to.deep.equal([])
    expect(loaded.length).to.be.at.most(90)
  })

  it('loads no HTTP client before something is uploaded or fetched', () => {
    const loaded = loadedBy(import.meta.resolve('svc-sdk/audit'))
    expect([...loaded].filter((name) => /^node:https?$/.test(name))).to.deep.equal([])
  })
})

describe('the threads of the audit log', () => {
  const folder = new URL('./', import.meta.resolve('@svc/plugin-audit/log'))
  const worker = (path: string) => new URL(path, folder).href

  it('load no package and of core only threads, JSON and the folding of names, which keeps their start short', () => {
    for (const path of ['tools/verify/scan-worker.js', 'signing/signing-worker.js']) {
      expect(packagesOf(worker(path))).to.deep.equal([])
      expect([...foldersOf(worker(path))].filter((name) => name.startsWith('core/'))).to.deep.equal(
        path.startsWith('tools')
          ? ['core/dist/thread', 'core/dist/json', 'core/dist/match']
          : ['core/dist/thread'],
      )
    }
  })
})
