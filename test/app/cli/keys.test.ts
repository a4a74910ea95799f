import { createPublicKey, verify } from 'node:crypto'
import { cpSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type AuditError, generateKeyFile, LocalDevSigner } from '@svc/plugin-audit/log'
import { expect } from 'chai'
import { keysCommand } from 'svc-sdk/internal/cli/keys'
import { appenderIn, envelope } from '../../plugins/audit/log/writer/records.js'
import { runCommand } from '../../support/command.js'
import { temporaryDir } from '../../support/temporary-dir.js'

import { audit } from './audit-rig.js'

describe('svc keys generate', () => {
  const dir = temporaryDir()

  it('prints the key id and the public key, and never the secret', async () => {
    const path = join(dir.path, 'key')
    const { out, code } = await runCommand(keysCommand, ['generate', '--out', path])
    expect(code).to.equal(0)
    expect(out)
      .to.match(/ed25519:[0-9a-f]{64}\n/)
      .and.match(/ed25519:[A-Za-z0-9+/]{43}=\n/)
    expect(out).not.to.include(readFileSync(path, 'utf8').split('\n')[1])
  })

  it('exits 1 with a clear message when the file exists', async () => {
    const path = join(dir.path, 'key')
    writeFileSync(path, 'mine')
    const { err, code } = await runCommand(keysCommand, ['generate', '--out', path])
    expect([err, code]).to.deep.equal([
      `svc-sdk keys generate: ${path} exists already; a key is never overwritten\n`,
      1,
    ])
    expect(readFileSync(path, 'utf8')).to.equal('mine')
  })
})

describe('svc keys public', () => {
  const dir = temporaryDir()
  const print = (...args: string[]) => runCommand(keysCommand, ['public', ...args])

  it('prints the public key in each form that a verifier takes, and never the secret', async () => {
    const key = join(dir.path, 'key')
    const generated = (await runCommand(keysCommand, ['generate', '--out', key])).out
    const [, keyId = '', line = ''] = /^key id {6}(.*)\npublic key {2}(.*)\n$/.exec(generated) ?? []
    const signer = LocalDevSigner.fromKeyRef(`file://${key}`)
    const log = join(dir.path, 'log')
    const appender = appenderIn(log, { signer })
    await appender.append(envelope())
    await appender.close()
    const shown = async (...more: string[]) => (await print(key, ...more)).out
    expect(await shown()).to.equal(`${line}\n`)
    expect((await print(`file://${key}`)).out).to.equal(`${line}\n`)
    expect(await shown('--format', 'id')).to.equal(`${keyId}\n`)
    const jwk = JSON.parse(await shown('--format', 'jwk'))
    const [text, signature] = [Buffer.from('text'), signer.sign(Buffer.from('text'))]
    for (const form of [await shown('--format', 'pem'), { key: jwk, format: 'jwk' } as const]) {
      expect(verify(null, text, createPublicKey(form), signature)).to.equal(true)
    }
    const { out: vkey } = await audit('vkey', log)
    const origin = vkey.slice(0, vkey.indexOf('+'))
    expect(await shown('--format', 'vkey', '--origin', origin)).to.equal(vkey)
    const keys = join(dir.path, 'keys')
    const printed = [generated, generated.split('\n').at(1), await shown('--format', 'pem'), vkey]
    for (const text of [
      ...printed,
      await shown(),
      await shown('--format', 'jwk'),
      readFileSync(key, 'utf8'),
    ]) {
      writeFileSync(keys, text ?? '')
      expect((await audit('verify', log, '--keys', keys)).code, text).to.equal(0)
    }
    writeFileSync(keys, keyId)
    expect((await audit('verify', log, '--keys', keys)).err).to.include('this is the id of a key')
    const [, secret = ''] = readFileSync(key, 'utf8').split('\n')
    for (const form of ['line', 'id', 'pem', 'jwk'])
      expect(await shown('--format', form)).not.to.include(secret)
  })

  it('refuses a file that is not a key, and a form without what it needs', async () => {
    const key = join(dir.path, 'key')
    generateKeyFile(key)
    const together = 'svc-sdk keys public: --format vkey and --origin go together\n'
    expect(await print(key, '--format', 'vkey')).to.deep.equal({ out: '', err: together, code: 1 })
    expect(await print(key, '--origin', 'a.example')).to.deep.equal({ out: '', err: together, code: 1 })
    expect((await print(key, '--format', 'vkey', '--origin', 'a b')).err).to.match(/a b is not the origin/)
    expect((await print(join(dir.path, 'none'))).err).to.match(/^svc-sdk keys public: .*none/)
  })

  it('opens a key outside of files by the module that --plugin names, and says what is missing', async () => {
    const module = join(dir.path, 'vault.mjs')
    const signer = `{ keyId: 'ed25519:x', publicKey: new Uint8Array(32).fill(1), sign() {}, verify() {} }`
    writeFileSync(module, `export const openSigner = (ref, dir) => (${signer})\n`)
    const empty = join(dir.path, 'empty.mjs')
    writeFileSync(empty, 'export const other = 1\n')
    const shown = (...plugin: string[]) => print('vault:audit', ...plugin)
    expect(await shown('--plugin', module)).to.include({ code: 0, out: `ed25519:${'AQEB'.repeat(10)}AQE=\n` })
    expect((await shown()).err).to.include('a key vault: is opened by a plugin: give --plugin MODULE')
    expect((await shown('--plugin', empty)).err).to.include('has no openSigner, so it opens no keys')
    expect((await shown('--plugin', './nowhere.mjs')).err).to.include('"./nowhere.mjs" cannot be imported')
  })
})

describe('svc keys rotate and revoke', () => {
  const dir = temporaryDir()

  it('change the keys that a log trusts', async () => {
    const log = join(dir.path, 'log')
    const [old, next] = ['old', 'next'].map((name) => join(dir.path, name)) as [string, string]
    const first = generateKeyFile(old)
    const second = generateKeyFile(next)
    const write = async (key: string) => {
      // The log uses the system time like the commands, because another day would have a separate leaf.
      const clock = { now: () => Date.now(), monotonic: () => performance.now() }
      const appender = appenderIn(log, { clock, signer: LocalDevSigner.fromKeyRef(`file://${key}`) })
      await appender.append(envelope({ ts: new Date().toISOString() })).finally(() => appender.close())
    }
    await write(old)
    const rotated = await runCommand(keysCommand, ['rotate', log, '--from', old, '--to', next])
    expect(rotated.out).to.equal(`the log trusts ${second.keyId} and ${first.keyId}\n`)
    await write(next)
    const revoked = await runCommand(keysCommand, [
      'revoke',
      log,
      '--key-id',
      first.keyId,
      '--sign-with',
      next,
    ])
    expect(revoked.out).to.equal(`${first.keyId} is not trusted from leaf 7 on\n`)
    expect(await write(old).catch((error: AuditError) => error.code)).to.equal('key_refused')
    const stranger = join(dir.path, 'stranger')
    generateKeyFile(stranger)
    const again = await runCommand(keysCommand, ['rotate', log, '--from', old, '--to', stranger])
    expect(again.code).to.equal(1)
    expect(again.err).to.match(/^svc-sdk keys rotate: /)
    const keys = join(dir.path, 'keys')
    writeFileSync(keys, `${first.publicKey}\n${second.publicKey}\n`)
    expect((await audit('verify', log, '--keys', keys)).code).to.equal(0)
  })
})

describe('svc audit resume and fork', () => {
  const dir = temporaryDir()

  it('continue a copied log as the same log or as a new one', async () => {
    const [log, copy] = ['log', 'copy'].map((name) => join(dir.path, name)) as [string, string]
    const write = async (at: string) => {
      const appender = appenderIn(at)
      await appender.append(envelope()).finally(() => appender.close())
    }
    await write(log)
    cpSync(log, copy, { recursive: true })
    expect(await write(copy).catch((error: AuditError) => error.code)).to.equal('log_copied')
    const resumed = await audit('resume', copy)
    expect(resumed.out).to.match(/^log [0-9a-f]{32} continues in /)
    await write(copy)
    const forked = await audit('fork', copy)
    expect(forked.out).to.match(/parent-\w+ holds log\.svc-audit\/\w+ with 5 leaves/)
    await write(copy)
    expect((await audit('verify', copy)).code).to.equal(0)
    const nothing = await audit('resume', join(dir.path, 'nothing'))
    expect(nothing.code).to.equal(1)
    expect(nothing.err).to.include('holds no audit.journal')
  })
})
