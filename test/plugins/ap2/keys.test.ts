import { createServer, type Server } from 'node:https'
import type { AddressInfo } from 'node:net'
import { generateLocalKey } from '@svc/plugin-ap2/dev'
import { didJwk, didKey } from '@svc/plugin-ap2/internal/keys/did-method'
import { DidWeb, documentUrlOf } from '@svc/plugin-ap2/internal/keys/did-web'
import { IssuerKeys } from '@svc/plugin-ap2/internal/keys/issuer-keys'
import type { Jwt } from '@svc/plugin-ap2/internal/mandate/jwt'
import { expect } from 'chai'
import { FakeClock } from 'svc-sdk/testing'
import { TestAuthority } from '../../support/certificates.js'
import { ofSuite } from '../../support/parts.js'
import { TemporaryDir } from '../../support/temporary-dir.js'

async function failure(promise: Promise<unknown>): Promise<string> {
  try {
    await promise
    return 'resolved'
  } catch (error) {
    return error instanceof Error ? error.message : String(error)
  }
}

describe('did:key', () => {
  for (const alg of ['ES256', 'ES384', 'EdDSA'] as const) {
    it(`has a key for ${alg}`, async () => {
      const { did, publicJwk } = generateLocalKey(alg)
      const fragment = did.slice('did:key:'.length)
      expect(await didKey.resolve(did)).to.deep.equal([{ id: `${did}#${fragment}`, jwk: publicJwk }])
    })
  }

  // The examples of the did:key method specification.
  const examples = {
    Ed25519: 'z6MkiTBz1ymuepAQ4HEHYSF1H8quG5GLVVQR3djdX3mDooWp',
    'P-256': 'zDnaerDaTF5BXEavCrfRZEk316dpbLsfPDZ3WJ5hRTPFU2169',
    'P-384': 'z82Lm1MpAkeJcix9K8TMiLd5NMAhnwkjjCBeWHXyu3U4oT2MVJJKXkcVBgjGhnLBn2Kaau9',
  }
  for (const [curve, text] of Object.entries(examples)) {
    it(`reads a published key of ${curve}`, async () => {
      const [key] = await didKey.resolve(`did:key:${text}`)
      expect(key?.jwk.crv).to.equal(curve)
    })
  }

  it('refuses other text, other types of keys, and points that are not on the curve', async () => {
    const others = [
      'z6Mk0',
      'u6Mk',
      'z6LSbysY2xFMRpGMhb7tFTLMpeuPRaqaWM1yECx2AtzE3KCc',
      'z',
      `z${'1'.repeat(200)}`,
    ]
    for (const text of others) expect(await failure(didKey.resolve(`did:key:${text}`)), text).to.match(/key/)
  })
})

describe('did:jwk', () => {
  const didOf = (jwk: object) => `did:jwk:${Buffer.from(JSON.stringify(jwk)).toString('base64url')}`

  it('has the key of its identifier', async () => {
    const { publicJwk } = generateLocalKey('ES256')
    const did = didOf(publicJwk)
    expect(await didJwk.resolve(did)).to.deep.equal([{ id: `${did}#0`, jwk: publicJwk }])
  })

  it('refuses private keys, keys for encryption, and identifiers that are too long', async () => {
    const { publicJwk, privateJwk } = generateLocalKey('ES256')
    for (const jwk of [
      privateJwk,
      { ...publicJwk, use: 'enc' },
      { kty: 'RSA' },
      { ...publicJwk, more: 'x'.repeat(3000) },
    ]) {
      expect(await failure(didJwk.resolve(didOf(jwk)))).to.match(/identifier/)
    }
  })
})

describe('did:web', () => {
  const { publicJwk } = generateLocalKey('ES256')
  const other = generateLocalKey('EdDSA')
  let authority: TestAuthority
  let server: Server
  let host: string
  let asked: string[]
  let responses: Record<
    string,
    () => { status?: number; headers?: Record<string, string>; body?: string } | 'hang'
  >
  let web: DidWeb
  let clock: FakeClock

  const dir = ofSuite(() => new TemporaryDir())
  before(() => {
    authority = new TestAuthority(dir.path)
  })

  beforeEach(async () => {
    asked = []
    responses = {}
    clock = new FakeClock()
    const { key, cert } = authority.server()
    server = createServer({ key, cert }, (request, response) => {
      asked.push(request.url ?? '')
      const prepared = responses[request.url ?? '']?.() ?? { status: 404 }
      if (prepared === 'hang') return
      response.writeHead(prepared.status ?? 200, prepared.headers).end(prepared.body)
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    host = `localhost%3A${(server.address() as AddressInfo).port}`
    web = resolver()
  })

  afterEach(async () => {
    await web.close()
    server.closeAllConnections()
    await new Promise((resolve) => server.close(resolve))
  })

  const resolver = (over: object = {}) =>
    new DidWeb({
      allowPrivate: true,
      ca: authority.root.cert,
      timeoutMs: 5000,
      maxAgeMs: 60_000,
      clock,
      ...over,
    })

  const documentOf = (did: string, over: object = {}) => ({
    body: JSON.stringify({
      id: did,
      verificationMethod: [
        { id: `${did}#k1`, type: 'JsonWebKey', controller: did, publicKeyJwk: publicJwk },
        {
          id: '#k2',
          type: 'Multikey',
          controller: did,
          publicKeyMultibase: other.did.slice('did:key:'.length),
        },
        { id: `${did}#k3`, type: 'JsonWebKey', controller: 'did:web:other.example', publicKeyJwk: publicJwk },
      ],
      assertionMethod: [`${did}#k1`, '#k2', `${did}#k3`, '#none'],
      ...over,
    }),
  })

  it('is a document on the host of the identifier, and has the keys for assertions', async () => {
    const did = `did:web:${host}:shops:one`
    responses['/shops/one/did.json'] = () => documentOf(did)
    expect(await web.resolve(did)).to.deep.equal([
      { id: `${did}#k1`, jwk: publicJwk },
      { id: `${did}#k2`, jwk: other.publicJwk },
    ])
    const whole = `did:web:${host}`
    responses['/.well-known/did.json'] = () => documentOf(whole, { assertionMethod: ['#k2'] })
    expect(await web.resolve(whole)).to.have.lengthOf(1)
  })

  it('is fetched once for calls at the same time, and again when it is old', async () => {
    const did = `did:web:${host}`
    responses['/.well-known/did.json'] = () => documentOf(did)
    await Promise.all([web.resolve(did), web.resolve(did), web.resolve(did)])
    await web.resolve(did)
    expect(asked).to.have.lengthOf(1)
    clock.advance(60_000)
    await web.resolve(did)
    expect(asked).to.have.lengthOf(2)
  })

  it('is fetched early for an unknown key, at most once in a minute, and keeps its keys if that fails', async () => {
    const did = `did:web:${host}`
    const place = '/.well-known/did.json'
    const keys = new IssuerKeys({
      didMethods: undefined,
      allowed: new Set([did]),
      pinned: new Map(),
      methods: { web: resolver({ maxAgeMs: 3_600_000 }) },
    })
    const known = { kid: `${did}#k2` } as Jwt
    const added = { kid: `${did}#k1` } as Jwt
    responses[place] = () => documentOf(did, { assertionMethod: ['#k2'] })
    await keys.keyOf(did, known)
    expect(await failure(keys.keyOf(did, added))).to.match(/has no key/)
    expect(asked).to.have.lengthOf(1)
    clock.advance(60_000)
    responses[place] = () => ({ status: 500 })
    const both = await Promise.all([failure(keys.keyOf(did, added)), failure(keys.keyOf(did, added))])
    expect(both.join()).to.match(/responded with 500.*responded with 500/)
    await keys.keyOf(did, known)
    expect(await failure(keys.keyOf(did, added))).to.match(/has no key/)
    expect(asked).to.have.lengthOf(2)
    clock.advance(60_000)
    responses[place] = () => documentOf(did)
    expect((await keys.keyOf(did, added)).id).to.equal(added.kid)
    await keys.keyOf(did, known)
    expect(asked).to.have.lengthOf(3)
  })

  it('is not fetched again at once after a failure', async () => {
    const did = `did:web:${host}`
    expect(await failure(web.resolve(did))).to.match(/responded with 404/)
    expect(await failure(web.resolve(did))).to.match(/responded with 404/)
    expect(asked).to.have.lengthOf(1)
    clock.advance(5000)
    responses['/.well-known/did.json'] = () => documentOf(did)
    expect(await web.resolve(did)).to.have.lengthOf(2)
  })

  it('refuses redirects, documents that are too large, of another id, or not JSON', async () => {
    const did = `did:web:${host}`
    const refused: readonly (readonly [RegExp, object])[] = [
      [/responded with 302; redirects are not followed/, { status: 302, headers: { location: '/other' } }],
      [/larger than 65536 bytes/, { body: `{"id":"${'x'.repeat(70_000)}"}` }],
      [/id is not/, documentOf('did:web:other.example')],
      [/./, { body: 'no json' }],
      [/id is not/, { body: '[]' }],
    ]
    for (const [expected, response] of refused) {
      responses['/.well-known/did.json'] = () => response
      const message = await failure(web.resolve(did))
      expect(message).to.match(expected).and.not.equal('resolved')
      clock.advance(5000)
    }
    expect(asked).to.not.include('/other')
  })

  it('refuses a server that does not respond within the time limit', async () => {
    responses['/.well-known/did.json'] = () => 'hang'
    await web.close()
    web = resolver({ timeoutMs: 100 })
    expect(await failure(web.resolve(`did:web:${host}`))).to.match(/within 100 ms/)
  })

  it('refuses a certificate of another authority', async () => {
    await web.close()
    web = resolver({ ca: undefined })
    expect(await failure(web.resolve(`did:web:${host}`))).to.match(/certificate/)
  })

  it('refuses hosts that are not public, unless the policy allows them', async () => {
    await web.close()
    web = resolver({ allowPrivate: false })
    for (const name of [
      host,
      '127.0.0.1',
      '%5B%3A%3A1%5D',
      '10.0.0.1',
      'shop.internal',
      'intranet',
      '2130706433',
    ]) {
      expect(await failure(web.resolve(`did:web:${name}`)), name).to.match(/not a public host/)
    }
    expect(asked).to.deep.equal([])
  })

  it('refuses identifiers that do not give a URL of that host and path', () => {
    expect(documentUrlOf('did:web:shop.example').href).to.equal('https://shop.example/.well-known/did.json')
    expect(documentUrlOf('did:web:shop.example%3A8443:a').href).to.equal(
      'https://shop.example:8443/a/did.json',
    )
    for (const did of [
      'shop.example:..',
      'shop.example:%2e%2e',
      'a%40b.example',
      'a%2Fb',
      'shop.example:a%2Fb',
      'a%3Fb',
      '',
    ]) {
      expect(() => documentUrlOf(`did:web:${did}`), did).to.throw('names no document')
    }
  })
})
