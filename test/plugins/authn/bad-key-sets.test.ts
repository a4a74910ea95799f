import { generateKeyPairSync } from 'node:crypto'
import type { ServerResponse } from 'node:http'
import { expect } from 'chai'
import { type CryptoKey, exportJWK, generateKeyPair, generateSecret, type JWK } from 'jose'
import { refusal, why } from '../../support/stage-rig.js'
import { AuthnRig, present } from './rig.js'

describe('authn: a key set that cannot be used, whose endpoint', () => {
  let rig: AuthnRig

  beforeEach(async () => {
    rig = await AuthnRig.start()
  })

  afterEach(() => rig[Symbol.asyncDispose]())

  type Respond = (response: ServerResponse) => unknown

  const whole =
    (status: number, body: string | Buffer, headers = {}): Respond =>
    (response) =>
      response.writeHead(status, headers).end(body)

  function pour(response: ServerResponse): void {
    while (!response.destroyed && response.write(Buffer.alloc(16 * 1024, 32)));
    response.once('drain', () => pour(response))
  }

  const other = 'the key set is not a JSON object with a list of "keys"'
  const tooLarge = 'the key set is larger than 256 KiB'
  const slow = 'no complete response within 50 ms'
  const many = () => JSON.stringify({ keys: Array.from({ length: 1000 }, () => rig.issuer.key.jwk) })
  const length = 256 * 1024 + 1
  const cases: readonly (readonly [what: string, respond: Respond, message: string | RegExp])[] = [
    ['hangs', () => undefined, slow],
    ['never completes its response', (response) => response.writeHead(200).write('{"keys":['), slow],
    ['responds with an error', whole(500, 'oops'), "the key set's URL responded with 500"],
    [
      'redirects',
      whole(302, '', { location: 'http://127.0.0.1:1/' }),
      "the key set's URL responded with 302",
    ],
    ['responds with HTML', whole(200, '<html>'), "the key set's URL did not respond with JSON"],
    ...['[]', 'null', '{}', '{"keys":{}}'].map((json) => [`has ${json}`, whole(200, json), other] as const),
    ['has no keys', whole(200, '{"keys":[]}'), 'the key set has no key that can verify signatures'],
    [
      'has 1000 keys',
      (response) => whole(200, many())(response),
      'the key set has 1000 keys; at most 100 are accepted',
    ],
    [
      'announces more than 256 KiB',
      whole(200, Buffer.alloc(length, 32), { 'content-length': length }),
      tooLarge,
    ],
    ['sends an endless body', (response) => pour(response.writeHead(200)), tooLarge],
    [
      'closes the connection early',
      (response) => {
        response.writeHead(200, { 'content-length': 1000 }).write('{"keys":')
        response.socket?.destroySoon()
      },
      /length does not match|other side closed|aborted/,
    ],
  ]
  for (const [what, respond, message] of cases) {
    it(what, async () => {
      rig.issuer.response((_request, response) => void respond(response))
      const stage = await rig.stage(message === slow ? { jwks: { timeoutMs: 50 } } : {})
      expect(refusal(await present(stage, await rig.issuer.sign())).code).to.equal('STORE_UNAVAILABLE')
      const reason = stage.health?.()?.reason.replace(/^.*?cannot be fetched: /, '') ?? ''
      if (typeof message === 'string') expect(reason).to.equal(message)
      else expect(reason).to.match(message)
    })
  }
})

describe('authn: keys of a set that are not used', () => {
  let rig: AuthnRig

  beforeEach(async () => {
    rig = await AuthnRig.start()
  })

  afterEach(() => rig[Symbol.asyncDispose]())

  /** Why a token is refused that names this key, which the set has; it is signed with `key`, or with that of the issuer. */
  async function refusedFor(jwk: object, alg = 'ES256', key?: CryptoKey): Promise<string> {
    rig.issuer.keys.push({ ...jwk, kid: 'odd' } as JWK)
    const header = { alg, kid: 'odd' }
    return why(await present(await rig.stage(), await rig.issuer.sign({}, { header, ...(key && { key }) })))
  }

  const logged = () => rig.log.lines[0]?.fields['warnings']

  it('private ones, which are logged by name only', async () => {
    const { privateKey } = await generateKeyPair('ES256', { extractable: true })
    const jwk = await exportJWK(privateKey)
    expect(await refusedFor(jwk, 'ES256', privateKey)).to.match(
      /names the key "odd", which the issuer does not have/,
    )
    expect(logged()).to.deep.equal([
      'keys[1] (kid "odd") is a private key and therefore compromised; it is not used and should be replaced',
    ])
    expect(JSON.stringify(rig.log.lines)).not.to.include(jwk.d)
  })

  it('symmetric ones, which are logged', async () => {
    await refusedFor(await exportJWK(await generateSecret('HS256', { extractable: true })))
    expect(logged()).to.deep.equal(['keys[1] (kid "odd") is a symmetric key; it is not used'])
  })

  it('RSA keys that are too short, which are logged', async () => {
    await refusedFor(generateKeyPairSync('rsa', { modulusLength: 1024 }).publicKey.export({ format: 'jwk' }))
    expect(logged()).to.deep.equal(['keys[1] (kid "odd") is an RSA key of fewer than 2048 bits'])
  })

  for (const [what, keyAlg, more, alg] of [
    ['keys for encryption', 'ES256', { use: 'enc' }, 'ES256'],
    ['keys for other operations', 'ES256', { key_ops: ['encrypt'] }, 'ES256'],
    ['keys of another curve', 'ES256', {}, 'ES384'],
    ['keys of another algorithm', 'PS256', { alg: 'RS256' }, 'PS256'],
  ] as const) {
    it(`${what}, without a word in the log`, async () => {
      const { privateKey, publicKey } = await generateKeyPair(keyAlg, { extractable: true })
      const signing = alg === 'ES384' ? (await generateKeyPair('ES384')).privateKey : privateKey
      expect(await refusedFor({ ...(await exportJWK(publicKey)), ...more }, alg, signing)).to.match(
        new RegExp(`names the key "odd", which the issuer does not have for ${alg}`),
      )
      expect(rig.log.lines).to.deep.equal([])
    })
  }

  it('values that are not keys', async () => {
    expect(await refusedFor({ kty: 'EC', crv: 'P-256', x: 'AA', y: 'AA' })).to.equal(
      'UNAUTHENTICATED: The issuer\'s key "odd" is not a valid key for ES256.',
    )
  })
})
