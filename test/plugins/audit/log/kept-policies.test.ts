import { readdirSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { sha256Hex } from '@svc/core/json'
import { literalSecret } from '@svc/core/policy'
import type { FileSystem } from '@svc/plugin-audit/internal/log/files/file-system'
import { nodeFileSystem } from '@svc/plugin-audit/internal/log/files/file-system'
import { keepPolicy } from '@svc/plugin-audit/internal/log/files/kept-policies'
import { keptPolicyFile, readKeptPolicy } from '@svc/plugin-audit/tools'
import { expect } from 'chai'
import { temporaryDir } from '../../../support/temporary-dir.js'

const text = 'tenant: acme\nport: 1\n'
const hash = sha256Hex(text)
const full = Object.assign(new Error('ENOSPC: no space left on device'), { code: 'ENOSPC' })

describe('a kept policy', () => {
  const dir = temporaryDir()

  it('is found by its hash, and only its owner can read it', () => {
    keepPolicy(nodeFileSystem, dir.path, text)
    expect(readKeptPolicy(dir.path, hash)).to.equal(text)
    expect(statSync(join(dir.path, keptPolicyFile(hash))).mode & 0o777).to.equal(0o600)
    expect(statSync(join(dir.path, 'policies')).mode & 0o777).to.equal(0o700)
  })

  it('is written once', () => {
    keepPolicy(nodeFileSystem, dir.path, text)
    const written = statSync(join(dir.path, keptPolicyFile(hash)))
    keepPolicy(nodeFileSystem, dir.path, text)
    expect(statSync(join(dir.path, keptPolicyFile(hash))).ino).to.equal(written.ino)
  })

  it('is not believed after a change, and is written again', () => {
    keepPolicy(nodeFileSystem, dir.path, text)
    writeFileSync(join(dir.path, keptPolicyFile(hash)), 'tenant: evil\n')
    expect(readKeptPolicy(dir.path, hash)).to.equal(undefined)
    keepPolicy(nodeFileSystem, dir.path, text)
    expect(readKeptPolicy(dir.path, hash)).to.equal(text)
  })

  it('is not looked for outside the directory', () => {
    writeFileSync(join(dir.path, 'key.yaml'), 'x')
    expect(readKeptPolicy(dir.path, '../key')).to.equal(undefined)
    expect(readKeptPolicy(join(dir.path, 'none'), hash)).to.equal(undefined)
  })

  for (const step of ['writeSync', 'fsyncSync', 'renameSync'] as const)
    it(`leaves nothing behind if ${step} fails on a full disk`, () => {
      const failing: FileSystem = {
        ...nodeFileSystem,
        [step]: () => {
          throw full
        },
      }
      expect(() => keepPolicy(failing, dir.path, text)).to.throw('ENOSPC')
      expect(readKeptPolicy(dir.path, hash)).to.equal(undefined)
      expect(readdirSync(join(dir.path, 'policies'))).to.deep.equal([])
    })
})

describe('the search for a secret in the text of a policy', () => {
  for (const [yaml, found] of [
    ['audit: { presign: { auditKey: Bearer abc } }', 'audit.presign.auditKey (line 1)'],
    ['runtime:\n  enforcement:\n    remote: { apiKey: abc }', 'runtime.enforcement.remote.apiKey (line 3)'],
    ['remote: { headers: { x-api-key: abc } }', 'remote.headers.x-api-key (line 1)'],
    ['quotas: { redisUrl: "redis://u:pw-of-redis@host/0" }', 'quotas.redisUrl (line 1)'],
    ['{"targets":{"a":{"args":["ghp_0123456789abcdefghijABCDEFGHIJ012345"]}}}', 'targets.a.args[0] (line 1)'],
    [`audit: { presign: { auditKey: "\${env:SVC_AUDIT_KEY}" } }`, undefined],
    ['admin: { port: 0, tokenRef: file://token }', undefined],
    ['brokers: { a: { token_endpoint: "https://id.example.com/token", key_refs: [env:A] } }', undefined],
    ['audit: { log: { witnesses: [{ url: "http://a", key: "w+1234abcd+AQIDBAUG" }] } }', undefined],
    ['authn: { oidc: { tokenCacheSize: 5, jwks_uri: "https://id.example.com/jwks" } }', undefined],
    ["rules: [{ name: a, when: args.token == 'x', then: deny }]", undefined],
    ['entitlements: [', undefined],
  ] as const)
    it(`${found === undefined ? 'finds none in' : 'names the place in'} ${yaml.slice(0, 60)}`, () => {
      expect(literalSecret(yaml)).to.equal(found)
    })
})
