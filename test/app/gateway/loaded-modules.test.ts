import { execFileSync } from 'node:child_process'
import { join } from 'node:path'
import { generateKeyFile } from '@svc/plugin-audit/log'
import { expect } from 'chai'
import { listModules } from '../../support/loaded-modules.js'
import { TemporaryDir } from '../../support/temporary-dir.js'

const recordsOneCall = (dir: string) => `import { startGatewayServer } from 'svc-sdk'
const gateway = startGatewayServer({
  port: 0, tenant: 'acme', targets: { none: 'http://127.0.0.1:1' }, sec0Dir: ${JSON.stringify(join(dir, 'state'))},
  audit: { gatewayName: 'gw', gatewayVersion: '1.0.0', dir: ${JSON.stringify(join(dir, 'audit'))}, signer: { keyRef: ${JSON.stringify(`file://${join(dir, 'key')}`)} } },
  quotas: { adapter: 'memory' }, entitlements: 'open', authn: { allowUnauthenticated: true },
})
const { url } = await gateway.ready()
await fetch(url + '/invoke/none/none', { method: 'POST', body: '{}' })
await gateway.close()`

/** With HTTP targets and the sections that every gateway has. */
describe('a gateway that records a call', () => {
  let loaded: readonly string[] = []

  before(() => {
    using dir = new TemporaryDir()
    generateKeyFile(join(dir.path, 'key'))
    const flags = [...listModules(1), '--input-type=module', '--eval', recordsOneCall(dir.path)]
    const cwd = new URL('.', import.meta.url)
    const printed = execFileSync(process.execPath, flags, { cwd, encoding: 'utf8' }).split('\n')
    loaded = [...new Set(printed.filter((url) => url.startsWith('file:')))]
  })

  it('loads at most 1030 modules, those of libraries included', () => {
    expect(loaded.some((url) => url.endsWith('plugins/audit/dist/log/seal/sealer.js'))).to.equal(true)
    expect(loaded.length).to.be.within(700, 1030)
  })

  for (const [what, part] of [
    ['the tools of the log', 'plugins/audit/dist/log/tools/'],
    ['the code for servers over stdio', 'app/dist/stdio/targets/endpoint.js'],
    ['the parser of mandates', '@sd-jwt/core/'],
    ['the decryption of tokens', 'jose/dist/webapi/jwe/'],
    ['the federation of servers', 'app/dist/federation/'],
    ['the expressions of rules', '@marcbachmann/cel-js/'],
    ['the regular expressions of rules', 're2js/'],
    ['what rules need beyond their schema', 'plugins/rules/dist/on-demand.js'],
    ['the client of Redis', 'node_modules/ioredis/'],
  ] as const)
    it(`does not load ${what}`, () => {
      expect(loaded.filter((url) => url.includes(part))).to.deep.equal([])
    })
})
