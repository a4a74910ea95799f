import { readFileSync } from 'node:fs'
import { expect } from 'chai'

const built = import.meta.resolve('@svc/plugin-audit')

/** What a built module imports when it is loaded, itself and through its relatives. */
function packagesOf(module: URL, seen = new Set<string>()): Set<string> {
  if (seen.has(module.href)) return seen
  seen.add(module.href)
  const source = readFileSync(module, 'utf8')
  for (const [, name = ''] of source.matchAll(/^(?:import|export) [^;]*?from '([^']+)'/gm)) {
    if (name.startsWith('.')) packagesOf(new URL(name, module), seen)
    else seen.add(name)
  }
  return seen
}

const loadedBy = (file: string) =>
  [...packagesOf(new URL(file, built))].filter((name) => !/^(file|node):/.test(name))

describe('the threads of the audit log', () => {
  it('load only the small part of core, as all of it costs a thread a hundred milliseconds', () => {
    expect(loadedBy('verify/scan-worker.js')).to.deep.equal(['@svc/core/json'])
    expect(loadedBy('signing/signing-worker.js')).to.deep.equal([])
  })
})
