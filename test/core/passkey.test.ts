// An assertion has one form: a changed text or byte is found, also where the library takes several for the same.
import { assertionError, challengeOf, type PasskeyAssertion, publicKeyOf } from '@svc/core/passkey'
import { expect } from 'chai'
import fc from 'fast-check'
import { type KeyKind, testPasskey, signedVote as vote } from '../support/authenticator.js'

const origin = 'http://localhost:9090'

function assertionOf(kind: KeyKind, page = origin): PasskeyAssertion {
  const own = testPasskey('id', kind)
  const { authenticatorData, clientDataJson, signature } = own.respond(challengeOf(vote), page)
  return {
    public_key: own.publicKey,
    origin,
    authenticator_data: authenticatorData,
    client_data_json: clientDataJson,
    signature,
  }
}

const binary = ['authenticator_data', 'client_data_json', 'signature'] as const
const alphabet = [...'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_+/= \n']

describe('an assertion', () => {
  for (const kind of ['ec', 'ed25519', 'rsa'] as const) {
    it(`proves the vote, and nothing once a character or a byte of it is changed, added or removed: ${kind}`, async () => {
      const whole = assertionOf(kind)
      expect(await assertionError(vote, whole)).to.equal(undefined)
      const member = fc.constantFrom(...binary, 'public_key' as const)
      const place = fc.nat(2000)
      const change = fc.constantFrom('set', 'insert', 'remove')
      await fc.assert(
        fc.asyncProperty(member, place, change, fc.constantFrom(...alphabet), async (name, at, how, by) => {
          const text = whole[name]
          const index = at % (text.length + (how === 'insert' ? 1 : 0))
          const changed =
            text.slice(0, index) +
            (how === 'remove' ? '' : by) +
            text.slice(how === 'insert' ? index : index + 1)
          fc.pre(changed !== text)
          expect(await assertionError(vote, { ...whole, [name]: changed })).to.be.a('string')
        }),
        { numRuns: 200 },
      )
      await fc.assert(
        fc.asyncProperty(
          fc.constantFrom(...binary),
          place,
          change,
          fc.nat(255),
          async (name, at, how, by) => {
            const bytes = [...Buffer.from(whole[name], 'base64url')]
            const index = at % (bytes.length + (how === 'insert' ? 1 : 0))
            const changed = bytes.toSpliced(
              index,
              how === 'insert' ? 0 : 1,
              ...(how === 'remove' ? [] : [by]),
            )
            fc.pre(!Buffer.from(changed).equals(Buffer.from(bytes)))
            const text = Buffer.from(changed).toString('base64url')
            expect(await assertionError(vote, { ...whole, [name]: text })).to.be.a('string')
          },
        ),
        { numRuns: 200 },
      )
    })
  }

  it('has one encoding of a signature, also of those that the library takes', async () => {
    const whole = assertionOf('ec')
    const bytes = Buffer.from(whole.signature, 'base64url')
    const [tag = 0, length = 0] = bytes
    const others = {
      'a long length': Buffer.concat([Buffer.from([tag, 0x81, length]), bytes.subarray(2)]),
      'a byte after it': Buffer.concat([bytes, Buffer.from([0])]),
      nothing: Buffer.alloc(0),
    }
    for (const [what, other] of Object.entries(others)) {
      const changed = { ...whole, signature: other.toString('base64url') }
      expect(await assertionError(vote, changed), what).to.equal('the signature is not in DER')
    }
  })

  it('is of a page that is not an IP address, and of its port', async () => {
    const local = { ...assertionOf('ec', 'http://127.0.0.1:9090'), origin: 'http://127.0.0.1:9090' }
    expect(await assertionError(vote, local)).to.match(/an IP address cannot be the relying party/)
    expect(await assertionError(vote, assertionOf('ec', 'http://localhost:9091'))).to.match(/origin/)
  })
})

describe('the public key of a passkey', () => {
  it('is of a kind that authenticators have', () => {
    expect(publicKeyOf(testPasskey().publicKey).asymmetricKeyType).to.equal('ec')
    for (const text of ['', 'AAAA', 'not base64']) expect(() => publicKeyOf(text)).to.throw()
  })
})
