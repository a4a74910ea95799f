import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { type Pkcs11, Pkcs11Signer } from '@svc/example-custom-stage/pkcs11-signer'
import { LocalDevSigner, rotateKey, SvcAppender, verifierFromPublicKey } from '@svc/plugin-audit/log'
import { verifyLog } from '@svc/plugin-audit/tools'
import { expect } from 'chai'
import { sealedLog } from '../plugins/audit/log/seal/sealed-log.js'
import { envelope } from '../plugins/audit/log/writer/records.js'

const folder = fileURLToPath(new URL('../../pkcs11/', import.meta.url))
const binding = join(folder, 'node_modules/pkcs11js/build/Release/pkcs11.node')
const library = ['/usr/lib/softhsm/libsofthsm2.so', '/usr/lib64/pkcs11/libsofthsm2.so'].find(existsSync)
const PIN = '1234'

interface KeyMaker extends Pkcs11 {
  C_GenerateKeyPair(session: Buffer, mechanism: object, publicKey: object[], privateKey: object[]): object
}

/** The template of an Ed25519 key pair (PKCS#11 3.0): the key cannot leave the token. */
function makeKey(pkcs11: KeyMaker, token: string, label: string): void {
  pkcs11.load(library ?? '')
  pkcs11.C_Initialize({ flags: 0 })
  const slot = pkcs11.C_GetSlotList(true).find((one) => pkcs11.C_GetTokenInfo(one).label.trimEnd() === token)!
  const session = pkcs11.C_OpenSession(slot, 6)
  pkcs11.C_Login(session, 1, PIN)
  const common = [
    { type: 0x3, value: label },
    { type: 0x1, value: true },
  ]
  const curve = Buffer.from('06032b6570', 'hex')
  pkcs11.C_GenerateKeyPair(
    session,
    { mechanism: 0x1055 },
    [...common, { type: 0x180, value: curve }, { type: 0x10a, value: true }],
    [...common, { type: 0x103, value: true }, { type: 0x162, value: false }, { type: 0x108, value: true }],
  )
  pkcs11.C_Finalize()
}

// `npm test` installs both if it can; see scripts/test-needs.mjs.
if (library !== undefined && existsSync(binding)) {
  describe('a signer whose key is in a PKCS#11 token', () => {
    const { PKCS11 }: { PKCS11: new () => KeyMaker } = createRequire(folder)('pkcs11js')
    let home = ''
    let signer: Pkcs11Signer | undefined
    const key = { module: library, token: 'audit', key: 'audit-2026', pin: PIN }

    before(() => {
      home = mkdtempSync(join(tmpdir(), 'svc-test-'))
      mkdirSync(join(home, 'tokens'))
      process.env['SOFTHSM2_CONF'] = join(home, 'softhsm2.conf')
      writeFileSync(join(home, 'softhsm2.conf'), `directories.tokendir = ${join(home, 'tokens')}\n`)
      const args = ['--init-token', '--free', '--label', 'audit', '--pin', PIN, '--so-pin', '5678']
      const { status, stderr } = spawnSync('softhsm2-util', args, { encoding: 'utf8' })
      expect(status, stderr).to.equal(0)
      makeKey(new PKCS11(), 'audit', 'audit-2026')
    })

    afterEach(() => {
      signer?.close()
      signer = undefined
    })

    after(() => {
      delete process.env['SOFTHSM2_CONF']
      rmSync(home, { recursive: true, force: true })
    })

    it('writes a log with checkpoints that verifies with its public key', async () => {
      signer = new Pkcs11Signer(new PKCS11(), key)
      const dir = join(home, 'log')
      const log = new SvcAppender({ config: { dir, retentionDays: 30 }, signer })
      await Promise.all(Array.from({ length: 200 }, () => log.append(envelope())))
      await log.close()
      const report = await verifyLog(dir, { keys: [verifierFromPublicKey(signer.publicKey)] })
      expect([report.verdict, report.verified, report.sealed]).to.deep.equal(['intact', 200, 200])
      expect(report.checkpoints).to.be.above(0)
    })

    it('takes a log over from a key file', async () => {
      signer = new Pkcs11Signer(new PKCS11(), key)
      const dir = join(home, 'rotated')
      const from = LocalDevSigner.fromSeed(new Uint8Array(32).fill(5))
      const write = async (options: Pick<ConstructorParameters<typeof SvcAppender>[0], 'signer'>) => {
        const log = new SvcAppender({ config: { dir, retentionDays: 30 }, ...options })
        await log.append(envelope())
        await log.close()
      }
      await write({ signer: from })
      await rotateKey(dir, { from, to: signer, retire: true })
      await write({ signer })
      expect(sealedLog(dir).journal.filter(({ kind }) => kind === 'key')).to.have.length(1)
      const report = await verifyLog(dir, { keys: [verifierFromPublicKey(from.publicKey)] })
      expect([report.verdict, report.verified]).to.deep.equal(['intact', 2])
    })

    it('signs with the key that it shows, at once and one by one', async () => {
      const own = new Pkcs11Signer(new PKCS11(), { ...key, sessions: 2 })
      signer = own
      const message = (i: number) => Buffer.from(`message ${i}`)
      const signatures = await Promise.all(Array.from({ length: 20 }, (_, i) => own.signAsync(message(i))))
      for (const [i, signature] of signatures.entries())
        expect(own.verify(message(i), signature)).to.equal(true)
      expect(own.verify(message(0), own.sign(message(0)))).to.equal(true)
      expect(own.verify(message(1), own.sign(message(0)))).to.equal(false)
    })

    it('names the missing setting', () => {
      const open = (changes: object) => () => new Pkcs11Signer(new PKCS11(), { ...key, ...changes })
      expect(open({ token: 'other' })).to.throw('no token with the label other')
      expect(open({ key: 'other' })).to.throw('no key with the label other')
      expect(open({ pin: '0000' })).to.throw(/PIN/)
    })
  })
}
