import { execFileSync, spawnSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { LocalDevSigner, rotateKey, SvcAppender, verifierFromPublicKey } from '@svc/plugin-audit/log'
import { verifyLog } from '@svc/plugin-audit/tools'
import { expect } from 'chai'
import sinon from 'sinon'
import type { Pkcs11 } from '../../examples/signer-pkcs11/module.js'
import type { Pkcs11Signer } from '../../examples/signer-pkcs11/signer.js'
import { sealedLog } from '../plugins/audit/log/seal/sealed-log.js'
import { codeOf, envelope } from '../plugins/audit/log/writer/records.js'
import { runSvc } from '../support/command.js'
import { Running } from '../support/gateway-process.js'
import { root } from '../support/pages.js'
import { svc } from '../support/svc.js'
import { temporaryDir } from '../support/temporary-dir.js'
import { startUpstream } from '../support/upstream.js'
import { bindingFolder, newBinding, PIN, SoftToken, tokenMissing } from './soft-token.js'

// By path: the package is installed by who uses it, not by the workspace.
const built = join(root, 'examples/signer-pkcs11/dist')
const { Pkcs11Signer: TokenSigner }: typeof import('../../examples/signer-pkcs11/signer.js') = await import(
  join(built, 'signer.js')
)
const { parsePkcs11Uri }: typeof import('../../examples/signer-pkcs11/uri.js') = await import(
  join(built, 'uri.js')
)
const plugin = join(built, 'index.js')

describe('the reference of a key in a PKCS#11 token', () => {
  it('is read as RFC 7512 says, with paths relative to the policy', () => {
    const uri = 'pkcs11:object=audit%202026;token=a%3Bb?pin-source=file:pin&module-path=lib/p11.so'
    expect(parsePkcs11Uri(uri, '/etc/svc')).to.deep.equal({
      module: '/etc/svc/lib/p11.so',
      token: 'a;b',
      object: 'audit 2026',
      pin: { kind: 'file', path: '/etc/svc/pin' },
    })
  })

  it('is refused with the reason, and without its values', () => {
    const rows: [uri: string, error: string][] = [
      ['token=t;object=o', 'the scheme is missing'],
      ['pkcs11:', 'token is missing'],
      ['pkcs11:token=t;object=o', 'module-path is missing'],
      ['pkcs11:token=t;object=o?module-path=/m', 'pin-source is missing'],
      ['pkcs11:token=t;object=o?module-path=/m&pin-value=s3cret', 'pin-value would show the PIN'],
      ['pkcs11:token=t;object=o?module-path=/m&pin-source=s3cret', 'pin-source is env:NAME or file:PATH'],
      [
        'pkcs11:token=t;object=o?module-path=/m&pin-source=env:s3-cret',
        'pin-source is env:NAME or file:PATH',
      ],
      ['pkcs11:token=t;token=s3cret;object=o?module-path=/m&pin-source=env:A', 'token is given twice'],
      ['pkcs11:s3cret;object=o?module-path=/m&pin-source=env:A', 'each part is one of token, object'],
      ['pkcs11:token=%E0%s3cret;object=o?module-path=/m&pin-source=env:A', 'is not percent-encoded'],
    ]
    for (const [uri, error] of rows) {
      expect(() => parsePkcs11Uri(uri, '/'), uri)
        .to.throw(error)
        .and.not.match(/s3-?cret/)
    }
  })
})

describe('the section pkcs11 of a policy', () => {
  const dir = temporaryDir()
  const good = 'pkcs11:token=t;object=o?module-path=/m&pin-source=env:A'

  async function check(key: string, audit: object = {}) {
    const file = join(dir.path, 'policy.yaml')
    const policy = {
      tenant: 'acme',
      port: 0,
      targets: {},
      audit: { gatewayName: 'gw', gatewayVersion: '1.0.0', ...audit },
      entitlements: 'open',
      quotas: { adapter: 'memory' },
      plugins: [{ use: plugin }],
      pkcs11: { key },
    }
    writeFileSync(file, JSON.stringify(policy))
    const { code, out, err } = await runSvc('policy', 'check', file)
    return { code, said: out + err }
  }

  it('takes the place of audit.signer.keyRef, and opens no token to be checked', async () => {
    expect(await check(good)).to.deep.include({ code: 0 })
  })

  it('is refused beside audit.signer.keyRef, and with a mistake in the reference', async () => {
    const both = await check(good, { signer: { keyRef: 'file://key' } })
    expect(both.code).to.equal(1)
    expect(both.said).to.include('audit.signer.keyRef: names a key, and a plugin binds the signer')
    const wrong = await check(good.replace('env:A', 's3cret'))
    expect(wrong.code).to.equal(1)
    expect(wrong.said)
      .to.include('pkcs11.key: pin-source is env:NAME or file:PATH')
      .and.not.include('is s3cret')
  })
})

describe('a signer whose key is in a PKCS#11 token', () => {
  let token: SoftToken
  let calls: Pkcs11
  let signer: Pkcs11Signer | undefined

  before(function () {
    if (tokenMissing === undefined) return
    process.stdout.write(`    skipped: ${tokenMissing}\n`)
    this.skip()
  })
  beforeEach(() => {
    process.env['SVC_TEST_PIN'] = PIN
    token = new SoftToken()
  })
  afterEach(() => {
    signer?.close()
    signer = undefined
    sinon.restore()
    token[Symbol.dispose]()
    delete process.env['SVC_TEST_PIN']
  })

  const open = (keyRef = token.keyRef()) => {
    signer = new TokenSigner(parsePkcs11Uri(keyRef, '/'), () => {
      calls = newBinding()
      return calls
    })
    return signer
  }
  const message = (n: number) => Buffer.from(`message ${n}`)

  it('writes a log that verifies with its public key, taken over from a key file and given to another key', async () => {
    token.makeKey('audit-2027')
    const own = open()
    const next = new TokenSigner(parsePkcs11Uri(token.keyRef('audit-2027'), '/'))
    const dir = join(token.home, 'log')
    const file = LocalDevSigner.fromSeed(new Uint8Array(32).fill(5))
    const write = async (by: typeof own | typeof file, count: number) => {
      const log = new SvcAppender({ config: { dir, retentionDays: 30 }, signer: by })
      await Promise.all(Array.from({ length: count }, () => log.append(envelope())))
      await log.close()
    }
    try {
      await write(file, 1)
      await rotateKey(dir, { from: file, to: own, retire: true })
      await write(own, 200)
      await rotateKey(dir, { from: own, to: next, retire: true })
      await write(next, 1)
    } finally {
      next.close()
    }
    expect(sealedLog(dir).journal.filter(({ kind }) => kind === 'key')).to.have.length(2)
    const report = await verifyLog(dir, { keys: [verifierFromPublicKey(file.publicKey)] })
    expect([report.verdict, report.verified]).to.deep.equal(['intact', 202])
  })

  it('signs with the key that it shows, at once and one by one', async () => {
    const own = open()
    const signatures = await Promise.all(Array.from({ length: 20 }, (_, n) => own.signAsync(message(n))))
    for (const [n, signature] of signatures.entries())
      expect(own.verify(message(n), signature)).to.equal(true)
    expect(own.verify(message(0), own.sign(message(0)))).to.equal(true)
    expect(own.verify(message(1), own.sign(message(0)))).to.equal(false)
  })

  it('makes the log unwritable while the token is away, and goes on when it is back', async () => {
    const clock = sinon.stub(performance, 'now').callThrough()
    const log = new SvcAppender({
      config: { dir: join(token.home, 'log'), retentionDays: 30, checkpoints: false },
      signer: open(),
    })
    await log.append(envelope())
    token.unplug()
    for (let n = 0; n < 3; n++) expect(await codeOf(log.append(envelope()))).to.equal('signer_failed')
    expect(log.status().writable).to.equal(false)
    token.plugIn()
    const later = performance.now() + 1_500
    clock.callsFake(() => later)
    await log.append(envelope())
    expect(log.status()).to.include({ writable: true, appended: 2, failed: 3 })
    await log.close()
  })

  it('waits for a token that hangs for a limited time, and uses it again when it responds', async () => {
    const config = { dir: join(token.home, 'log'), retentionDays: 30, checkpoints: false } as const
    const log = new SvcAppender({ config, signer: open(), limits: { signatureMs: 1_000 } })
    const respond: (() => void)[] = []
    const real = calls.C_SignAsync.bind(calls)
    const hanging = sinon.stub(calls, 'C_SignAsync').callsFake(async (...args) => {
      await new Promise<void>((resume) => respond.push(resume))
      return real(...args)
    })
    const codes = await Promise.all([1, 2, 3].map(() => codeOf(log.append(envelope()))))
    expect(codes).to.deep.equal(['signer_failed', 'signer_failed', 'signer_failed'])
    hanging.callsFake(real)
    for (const resume of respond) resume()
    await log.append(envelope())
    expect(log.status().writable).to.equal(true)
    await log.close()
  })

  it('tries a PIN that the token refused once, as the token would lock, and reads a changed one', async () => {
    const clock = sinon.stub(performance, 'now').callThrough()
    const own = open()
    const logIn = sinon.spy(calls, 'C_Login')
    let now = performance.now()
    const attempt = () => {
      clock.callsFake(() => (now += 2_000))
      return codeOf(own.signAsync(message(0)))
    }
    process.env['SVC_TEST_PIN'] = '0000'
    token.unplug()
    expect(await attempt()).to.equal('token_failed')
    token.plugIn()
    for (let n = 0; n < 5; n++) expect(await attempt()).to.equal('token_failed')
    expect(logIn.getCalls().filter(({ args }) => args[2] === '0000')).to.have.length(1)
    process.env['SVC_TEST_PIN'] = PIN
    expect(await attempt()).to.equal('resolved')
  })

  it('refuses a key that may leave the token, and names a missing setting', () => {
    token.makeKey('loose', { extractable: true })
    const rows: [keyRef: string, error: string | RegExp][] = [
      [token.keyRef('loose'), 'the key may leave it'],
      [token.keyRef('other'), 'no key with the label other'],
      [token.keyRef().replace('token=audit', 'token=other'), 'the PKCS#11 token other is not there'],
      [
        token.keyRef().replace(token.library, '/nowhere.so'),
        'the PKCS#11 library /nowhere.so cannot be used',
      ],
      [token.keyRef('audit-2026', 'env:SVC_UNSET_PIN'), 'the variable SVC_UNSET_PIN is not set'],
      [token.keyRef('audit-2026', 'file:/nowhere/pin'), 'no key file at /nowhere/pin'],
    ]
    for (const [keyRef, error] of rows) expect(() => open(keyRef), keyRef).to.throw(error)
    process.env['SVC_TEST_PIN'] = '0000'
    expect(() => open()).to.throw(/PIN/)
  })

  it('serves a gateway by its section, and the commands by --plugin', async () => {
    const env = { ...process.env, NODE_PATH: bindingFolder, NO_COLOR: '1' }
    const run = (...args: string[]) =>
      execFileSync(process.execPath, [svc, ...args], { env, encoding: 'utf8' })
    const { keyId } = open()
    expect(run('keys', 'public', token.keyRef(), '--plugin', plugin, '--format', 'id')).to.equal(`${keyId}\n`)
    await using upstream = await startUpstream()
    const policy = join(token.home, 'policy.yaml')
    const dir = join(token.home, 'audit')
    writeFileSync(join(token.home, 'pin'), PIN, { mode: 0o600 })
    writeFileSync(
      policy,
      JSON.stringify({
        tenant: 'acme',
        port: 0,
        targets: { files: upstream.url },
        audit: {
          gatewayName: 'gw',
          gatewayVersion: '1.0.0',
          dir,
          minFreeMb: 0,
        },
        plugins: [{ use: plugin }],
        pkcs11: { key: token.keyRef('audit-2026', 'file:pin') },
        authn: { allowUnauthenticated: true },
        entitlements: 'open',
        quotas: { adapter: 'memory' },
      }),
    )
    const doctor = spawnSync(process.execPath, [svc, 'doctor', policy], { env, encoding: 'utf8' })
    expect(doctor.stdout).to.include('the signing key in the token can be used')
    {
      await using gateway = new Running(['--policy', policy], { NODE_PATH: bindingFolder })
      const { url } = await gateway.line('listening')
      const response = await fetch(`${url}/mcp/files/read@1`, { method: 'POST', body: '{}' })
      expect(response.status).to.equal(200)
      gateway.child.kill('SIGTERM')
      expect(await gateway.exit).to.equal(0)
    }
    writeFileSync(join(token.home, 'keys.txt'), run('keys', 'public', token.keyRef(), '--plugin', plugin))
    expect(run('audit', 'verify', dir, '--keys', join(token.home, 'keys.txt'))).to.include('intact')
  })
})
