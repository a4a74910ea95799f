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
    expect(out).not.to.include(readFileSync(path, 'utf8').trim())
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
