import {
  judgeCosignature,
  parseAddCheckpoint,
  timeOf,
} from '@svc/plugin-audit/internal/log/format/checkpoint'
import {
  COSIGNATURE_TYPE,
  ED25519_TYPE,
  type Note,
  namedKey,
  parseNote,
  parseVkey,
} from '@svc/plugin-audit/internal/log/format/note'
import { verifierFromPublicKey } from '@svc/plugin-audit/internal/log/keys/public-key'
import { cosign, formatVkey } from '@svc/plugin-audit/internal/log/keys/signatures'
import { expect } from 'chai'
import { MemoryLog, witnessSigner } from './rig.js'

// The example of c2sp.org/tlog-cosignature.
const example = `example.com/behind-the-sofa
20852163
CsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=

\u2014 example.com/behind-the-sofa Az3grlgtzPICa5OS8npVmf1Myq/5IZniMp+ZJurmRDeOoRDe4URYN7u5/Zhcyv2q1gGzGku9nTo+zyWE+xeMcTOAYQ8=
\u2014 witness.example.com/w1 jWbPPwAAAABkGFDLEZMHwSRaJNiIDoe9DYn/zXcrtPHeolMI5OWXEhZCB9dlrDJsX3b2oyin1nPZqhf5nNo0xUe+mbIUBkBIfZ+qnA==
`

// A checkpoint that a public certificate log published, with the cosignature of a public witness and its key.
const published = `arche2025h1.staging.ct.transparency.dev
1432088532
U7WM79jrzyhGZ5/GUBTpM7NzwdyfFx61t3RovgcC4Ro=

\u2014 arche2025h1.staging.ct.transparency.dev ui8GwCF1+kWqZrxGdhj4aX3gcw7XUlXQQabg/27lefwhUkzbC3NygNI75MdhL1bfTW9g8Ei59RA23oHP7Ry1k3ZFWwQ=
\u2014 witness1.smartit.nu/witness1 pIyCDwAAAABqEiEghIp82KWebrw7/oHQwlTAm3g2RKS4+eebl8eO0WH+/iEcxZ75W3u5hNI7TOQtmJbqmNWVuE0tgh0XwzdZsDsUAQ==
\u2014 remora.n621.de 2net5wAAAABqEiEgPlfF3V06o0Y+fHM+J5J9s27wgxxcOVSpZ/2g/KSiXCg9DEZI+aVCIobWX9sXTynk5XeU/zZ0WBxtqB0DrAWfBw==
`
const publishedKey = 'remora.n621.de+da77ade7+BOvN63jn/bLvkieywe8R6UYAtVtNbZpXh34x7onlmtw2'

const note = (signed: string): Note => parseNote(signed)!

describe('a cosignature', () => {
  it('is accepted from a public witness on a public log', () => {
    const remora = parseVkey(publishedKey, COSIGNATURE_TYPE, verifierFromPublicKey)!
    expect(judgeCosignature(note(published), remora)).to.deep.equal({ kind: 'valid', time: 0x6a122120 })
    const changed = published.replace('\n1432088532\n', '\n1432088533\n')
    expect(judgeCosignature(note(changed), remora).kind).to.equal('wrong')
  })

  it('is accepted from another public witness under a name that its published key lacks', () => {
    const spki = Buffer.from('MCowBQYDK2VwAyEApTPPKyRu6Q3PoMkeY+/sNni0biF4vnVTYRHbVNA31mY=', 'base64')
    const key = namedKey('witness', COSIGNATURE_TYPE, verifierFromPublicKey(spki.subarray(-32)))
    const text =
      'developers.google.com/android/binary_transparency/google1p/0\n5\nxqaCEZhTGZUuKNA7MpSyxe1WXiiESB2p+crAyzM+Vxo=\n'
    const line =
      'r0xBJQAAAABnkyoLuHgN5KlIUUpZV9hulwsFcgqV5v1CyeIhBZWdkfOJT0ims1LqbYygO5MEl91CGha5sP79K57P7lIGrz7Qtx8eBw=='
    const signature = Buffer.from(line, 'base64').subarray(4)
    const judged = judgeCosignature(
      { text, signatures: [{ name: 'witness', keyId: key.id, signature }] },
      key,
    )
    expect(judged).to.deep.equal({ kind: 'valid', time: 0x67932a0b })
  })

  it('states the time in seconds: the example of the specification', () => {
    const cosignature = note(example).signatures[1]!
    expect(timeOf(cosignature)).to.equal(1_679_315_147)
    expect(timeOf(note(example).signatures[0]!)).to.equal(undefined)
  })

  it('is made and checked', async () => {
    const signer = witnessSigner(3)
    const signed = await new MemoryLog().checkpoint(3)
    const key = namedKey('w.example', COSIGNATURE_TYPE, verifierFromPublicKey(signer.publicKey))
    const line = cosign(note(signed).text, 'w.example', signer, 1_700_000_000_999)
    expect(judgeCosignature(note(signed + line), key)).to.deep.equal({ kind: 'valid', time: 1_700_000_000 })
    expect(judgeCosignature(note(signed), key).kind).to.equal('absent')
    const other = namedKey('v.example', COSIGNATURE_TYPE, verifierFromPublicKey(signer.publicKey))
    expect(judgeCosignature(note(signed + line), other).kind).to.equal('absent')
    // The time is part of what is signed.
    const bytes = Buffer.from(line.split(' ')[2]!, 'base64')
    bytes[11]! ^= 1
    const later = `\u2014 w.example ${bytes.toString('base64')}\n`
    expect(judgeCosignature(note(signed + later), key).kind).to.equal('wrong')
  })
})

describe('a verifier key', () => {
  it('has the type 4 and the id that the specification defines, for a witness', () => {
    const { name, key } = parseVkey(publishedKey, COSIGNATURE_TYPE, verifierFromPublicKey)!
    expect(formatVkey(name, COSIGNATURE_TYPE, key.publicKey)).to.equal(publishedKey)
    expect(parseVkey(publishedKey, ED25519_TYPE, verifierFromPublicKey)).to.equal(undefined)
    for (const wrong of [
      publishedKey.replace('da77ade7', 'da77ade8'),
      publishedKey.replace('remora', 'romora'),
      publishedKey.slice(0, -4),
      'remora.n621.de',
    ]) {
      expect(parseVkey(wrong, COSIGNATURE_TYPE, verifierFromPublicKey), wrong).to.equal(undefined)
    }
  })

  it('is read: the example in the specification of notes', () => {
    const vkey = 'example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k'
    const { name, key } = parseVkey(vkey, ED25519_TYPE, verifierFromPublicKey)!
    const signed = `This is an example message.\n\n\u2014 example.com/foo Uw2QOkn8srV1yJGh2VYRlL1Tnagv1YEq6TfXppzi2ONncAlTgK7Ztg1ERYNZXsYjOBH3mFXmRKuwHjG1Yu72IneyaQM=\n`
    expect(key.verify(Buffer.from(note(signed).text), note(signed).signatures[0]!.signature)).to.equal(true)
    expect(name).to.equal('example.com/foo')
  })
})

describe('the body of an add-checkpoint request', () => {
  it('is read: the example of the specification', () => {
    const proof = [
      'PlRNCrwHpqhGrupue0L7gxbjbMiKA9temvuZZDDpkaw=',
      'jrJZDmY8Y7SyJE0MWLpLozkIVMSMZcD5kvuKxPC3swk=',
      '5+pKlUdi2LeF/BcMHBn+Ku6yhPGNCswZZD1X/6QgPd8=',
      '/6WVhPs2CwSsb5rYBH5cjHV/wSmA79abXAwhXw3Kj/0=',
    ]
    const body = `old 20852014\n${proof.join('\n')}\n\n${example}`
    const { oldSize, checkpoint, proof: hashes, note: read } = parseAddCheckpoint(body)!
    expect([oldSize, hashes.length, checkpoint.size]).to.deep.equal([20_852_014, 4, 20_852_163])
    expect(checkpoint.origin).to.equal('example.com/behind-the-sofa')
    expect(read.signatures).to.have.length(2)
    expect(parseAddCheckpoint(`old 0\n\n${example}`)?.proof).to.deep.equal([])
    for (const wrong of [
      example,
      `old 01\n\n${example}`,
      `old -1\n\n${example}`,
      `old\n\n${example}`,
      `old 1\n${example}`,
      `old 1\nAAAA\n\n${example}`,
      `old 1\n${`${proof[0]}\n`.repeat(64)}\n${example}`,
      `old 1\r\n\n${example}`,
      `old 1\n\n${example.split('\n\n')[0]}\n`,
      `old 1\n\n${example.replace('20852163', 'many')}`,
    ]) {
      expect(parseAddCheckpoint(wrong), wrong).to.equal(undefined)
    }
  })
})
