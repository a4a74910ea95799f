import { createPrivateKey, generateKeyPairSync } from 'node:crypto'
import { chmodSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { inspect } from 'node:util'
import { toBase64 } from '@svc/core/json'
import { publicKeyLine } from '@svc/plugin-audit/internal/log/format/verifier'
import { generateKeyFile, LocalDevSigner, SignerKeyError, verifierFromPublicKey } from '@svc/plugin-audit/log'
import { expect } from 'chai'
import { temporaryDir } from '../../../../support/temporary-dir.js'

// RFC 8032 §7.1, TEST 2.
const seed = Buffer.from('4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb', 'hex')
const publicKey = Buffer.from('3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c', 'hex')
const message = Buffer.from('72', 'hex')
const signature =
  '92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00'

describe('LocalDevSigner', () => {
  const dir = temporaryDir()

  function keyFile(content: string, mode = 0o600): string {
    const path = join(dir.path, 'key')
    writeFileSync(path, content)
    chmodSync(path, mode)
    return `file://${path}`
  }

  function refusal(keyRef: string): SignerKeyError {
    try {
      LocalDevSigner.fromKeyRef(keyRef)
    } catch (error) {
      if (error instanceof SignerKeyError) return error
      throw error
    }
    throw new Error('the key was accepted')
  }

  const pem = (type: 'ed25519' | 'x25519') =>
    (type === 'ed25519' ? generateKeyPairSync('ed25519') : generateKeyPairSync('x25519')).privateKey
      .export({ format: 'pem', type: 'pkcs8' })
      .toString()

  describe('reads', () => {
    it('the base64 of a seed, and signs as RFC 8032 requires', () => {
      const signer = LocalDevSigner.fromKeyRef(keyFile(`${seed.toString('base64')}\n`))
      expect(Buffer.from(signer.sign(message)).toString('hex')).to.equal(signature)
      expect(signer.keyId).to.match(/^ed25519:[0-9a-f]{64}$/)
    })

    it('the base64 of a libsodium secret key', () => {
      const secretKey = Buffer.concat([seed, publicKey])
      const signer = LocalDevSigner.fromKeyRef(keyFile(secretKey.toString('base64')))
      expect(Buffer.from(signer.sign(message)).toString('hex')).to.equal(signature)
    })

    it('a PKCS#8 PEM key', () => {
      const text = pem('ed25519')
      const signer = LocalDevSigner.fromKeyRef(keyFile(text))
      const jwk = createPrivateKey(text).export({ format: 'jwk' })
      expect(signer.publicKey).to.deep.equal(new Uint8Array(Buffer.from(jwk.x ?? '', 'base64url')))
    })

    it('a percent-encoded path', () => {
      mkdirSync(join(dir.path, 'a b'))
      const { keyId } = generateKeyFile(join(dir.path, 'a b', 'key'))
      expect(LocalDevSigner.fromKeyRef(`file://${dir.path}/a%20b/key`).keyId).to.equal(keyId)
    })
  })

  describe('refuses', () => {
    it('a reference that is not a file URL', () => {
      expect(refusal('kms://key/1').code).to.equal('bad_key_ref')
      expect(refusal('file://').code).to.equal('bad_key_ref')
    })

    it('a missing file, naming it', () => {
      const error = refusal(`file://${dir.path}/none`)
      expect(error.code).to.equal('key_missing')
      expect(error.message).to.include(`${dir.path}/none`)
    })

    it('a folder', () => {
      expect(refusal(`file://${dir.path}`).code).to.equal('key_unreadable')
    })

    it('a key of the wrong length, naming both lengths', () => {
      const error = refusal(keyFile(Buffer.alloc(31, 7).toString('base64')))
      expect(error.code).to.equal('key_wrong_length')
      expect(error.message).to.include('31 bytes').and.include('32-byte')
    })

    it('text that is not a key, without quoting it', () => {
      const error = refusal(keyFile('correct horse battery staple'))
      expect(error.code).to.equal('key_malformed')
      expect(inspect(error)).not.to.include('horse')
    })

    it('a PEM key of another kind', () => {
      expect(refusal(keyFile(pem('x25519'))).code).to.equal('key_malformed')
    })

    it("a secret key with another key's public half, without quoting it", () => {
      const mixed = Buffer.concat([seed, Buffer.alloc(32, 1)]).toString('base64')
      const error = refusal(keyFile(mixed))
      expect(error.code).to.equal('key_mismatch')
      expect(inspect(error)).not.to.include(mixed.slice(0, 20))
    })

    it('a world-writable file', () => {
      expect(refusal(keyFile(seed.toString('base64'), 0o602)).code).to.equal('key_world_writable')
    })
  })

  it('warns about a world-readable file, and signs', () => {
    const warnings: string[] = []
    LocalDevSigner.fromKeyRef(keyFile(seed.toString('base64'), 0o604), {
      onWarning: (text) => warnings.push(text),
    })
    expect(warnings).to.have.length(1)
    expect(warnings[0]).to.include('chmod 600')
  })

  it('verifies its own signatures and no others', () => {
    const signer = LocalDevSigner.fromSeed(seed)
    const sig = signer.sign(message)
    expect(signer.verify(message, sig)).to.equal(true)
    expect(signer.verify(Buffer.from('73', 'hex'), sig)).to.equal(false)
    expect(signer.verify(message, sig.subarray(1))).to.equal(false)
  })

  it('shows no secret in inspection, JSON or a spread', () => {
    const signer = LocalDevSigner.fromSeed(seed)
    const shown = [
      inspect(signer, { depth: 9, showHidden: true }),
      JSON.stringify(signer),
      JSON.stringify({ ...signer }),
    ].join('\n')
    for (const form of [seed.toString('hex'), seed.toString('base64'), [...seed.subarray(0, 4)].join(', ')]) {
      expect(shown).not.to.include(form)
    }
  })
})

describe('generateKeyFile', () => {
  const dir = temporaryDir()

  it('writes a key with mode 0600 that signs under the printed key', () => {
    const path = join(dir.path, 'key')
    const generated = generateKeyFile(path)
    expect(statSync(path).mode & 0o777).to.equal(0o600)
    expect(readFileSync(path, 'utf8')).to.match(
      /^-----BEGIN PRIVATE KEY-----\n.+\n-----END PRIVATE KEY-----\n$/,
    )
    const signer = LocalDevSigner.fromKeyRef(`file://${path}`)
    expect(generated).to.deep.equal({ keyId: signer.keyId, publicKey: publicKeyLine(signer.publicKey) })
  })

  it('never overwrites', () => {
    const path = join(dir.path, 'key')
    generateKeyFile(path)
    const before = readFileSync(path, 'utf8')
    expect(() => generateKeyFile(path))
      .to.throw(SignerKeyError)
      .with.property('code', 'key_exists')
    expect(readFileSync(path, 'utf8')).to.equal(before)
  })
})

describe('verifierFromPublicKey', () => {
  it('verifies what the signer signed', () => {
    const verifier = verifierFromPublicKey(publicKey)
    expect(verifier.verify(message, Buffer.from(signature, 'hex'))).to.equal(true)
    expect(verifier.keyId).to.equal(LocalDevSigner.fromSeed(seed).keyId)
  })

  it('refuses a key of another length', () => {
    expect(() => verifierFromPublicKey(new Uint8Array(31)))
      .to.throw(SignerKeyError)
      .with.property('code', 'key_wrong_length')
  })

  it('has a one-line form', () => {
    expect(publicKeyLine(publicKey)).to.equal(`ed25519:${toBase64(publicKey)}`)
  })
})
