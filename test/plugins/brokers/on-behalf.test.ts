import { generateKeyPairSync } from 'node:crypto'
import { type Stage, services } from '@svc/core'
import { expect } from 'chai'
import { exportJWK, jwtVerify } from 'jose'
import { ofEachTest } from '../../support/parts.js'
import { explain } from '../../support/stage-rig.js'
import { json, startTokenEndpoint, type TestTokenEndpoint } from '../../support/token-endpoint.js'
import { ada, afterResponse, BrokersRig, keyFor, sendWith, why } from './rig.js'

const bearer = (token = 'caller-token') => ({ authorization: `Bearer ${token}` })
const grant = 'urn:ietf:params:oauth:grant-type:token-exchange'
const accessToken = 'urn:ietf:params:oauth:token-type:access_token'

describe('brokers: token exchange on behalf of the caller', () => {
  let endpoint: TestTokenEndpoint

  const rig = ofEachTest(() => new BrokersRig())
  beforeEach(async () => {
    rig.env['SECRET'] = 'a secret: with+signs'
    endpoint = await startTokenEndpoint()
  })

  afterEach(() => endpoint[Symbol.asyncDispose]())

  const onBehalf = (more: object = {}): Promise<Stage> =>
    rig.stage({
      type: 'oidc_on_behalf',
      token_endpoint: endpoint.url,
      client_id: 'the gateway',
      client_secret_ref: 'env:SECRET',
      inject: { header: 'authorization', format: 'bearer' },
      ...more,
    })

  /** The line of the log about a call that gets no credential. */
  const logged = async (stage: Promise<Stage> | Stage) => why(await sendWith(await stage, bearer())).logged

  it("exchanges the caller's token, and never forwards it", async () => {
    const wanted = { audience: 'files', resource: 'https://files.example/', scope: 'read list' }
    expect(await keyFor(await onBehalf(wanted), bearer())).to.equal('Bearer exchanged-1')
    const [exchange] = endpoint.exchanges
    expect(Object.fromEntries(exchange?.form ?? [])).to.deep.equal({
      grant_type: grant,
      subject_token: 'caller-token',
      subject_token_type: accessToken,
      ...wanted,
    })
    const pair = Buffer.from('the+gateway:a+secret%3A+with%2Bsigns').toString('base64')
    expect(exchange?.headers).to.include({ authorization: `Basic ${pair}`, accept: 'application/json' })
  })

  it('sends its secret in the form, and requests the token type, as the policy configures', async () => {
    const types = { subject_token_type: 'urn:x:jwt', requested_token_type: accessToken }
    await keyFor(await onBehalf({ client_auth: 'client_secret_post', ...types }), bearer())
    const [exchange] = endpoint.exchanges
    expect(exchange?.headers).to.not.have.property('authorization')
    expect(Object.fromEntries(exchange?.form ?? [])).to.include({
      client_id: 'the gateway',
      client_secret: 'a secret: with+signs',
      ...types,
    })
  })

  it('authenticates with an assertion, signed with a PEM or JWK key of any common type', async () => {
    const keys = [
      ['RS256', generateKeyPairSync('rsa', { modulusLength: 2048 })],
      ['ES256', generateKeyPairSync('ec', { namedCurve: 'P-256' })],
      ['ES384', generateKeyPairSync('ec', { namedCurve: 'P-384' })],
      ['EdDSA', generateKeyPairSync('ed25519')],
    ] as const
    for (const [alg, { privateKey, publicKey }] of keys) {
      const jwk = { ...(await exportJWK(privateKey)), kid: 'k-1' }
      for (const text of [
        privateKey.export({ format: 'pem', type: 'pkcs8' }).toString(),
        JSON.stringify(jwk),
      ]) {
        rig.write('client.key', text)
        const stage = await onBehalf({ client_secret_ref: undefined, private_key_ref: 'file://client.key' })
        await keyFor(stage, bearer(`${alg}${text.length}`))
        const form = endpoint.exchanges.at(-1)?.form
        expect(form?.get('client_assertion_type')).to.equal(
          'urn:ietf:params:oauth:client-assertion-type:jwt-bearer',
        )
        const { payload, protectedHeader } = await jwtVerify(form?.get('client_assertion') ?? '', publicKey, {
          issuer: 'the gateway',
          subject: 'the gateway',
          audience: endpoint.url,
          currentDate: new Date(rig.clock.now()),
        })
        expect(protectedHeader.alg).to.equal(alg)
        expect(protectedHeader.kid).to.equal(text.startsWith('{') ? 'k-1' : undefined)
        expect((payload.exp ?? 0) - (payload.iat ?? 0)).to.equal(60)
        expect(payload.jti).to.be.a('string')
        await stage.stop?.()
        rig.clock.advance(1000)
      }
    }
  })

  it('refuses an invalid private key without quoting it', async () => {
    for (const text of [
      'nonsense-5f1',
      '{"kty":"RSA"',
      '{"kty":"oct","k":"abcd"}',
      '-----BEGIN PRIVATE KEY-----',
    ]) {
      rig.write('client.key', text)
      const stage = await onBehalf({ client_secret_ref: undefined, private_key_ref: 'file://client.key' })
      const reasons = why(await sendWith(stage, bearer()))
      expect(reasons.said).to.match(/no key is usable\.$/)
      expect(reasons.logged)
        .to.match(/^the private key /)
        .and.not.include(text)
      rig.clock.advance(1000)
    }
    expect(endpoint.exchanges).to.deep.equal([])
  })

  it('caches the token of a caller until shortly before it expires', async () => {
    const stage = await onBehalf()
    expect(await keyFor(stage, bearer())).to.equal('Bearer exchanged-1')
    rig.clock.advance(269_999)
    expect(await keyFor(stage, bearer())).to.equal('Bearer exchanged-1')
    rig.clock.advance(1)
    expect(await keyFor(stage, bearer())).to.equal('Bearer exchanged-2')
  })

  it('caches a short-lived token for half its lifetime, and one without expires_in for less than a minute', async () => {
    for (const [expires_in, keptMs] of [
      [20, 10_000],
      ['20', 10_000],
      [undefined, 30_000],
    ] as const) {
      endpoint.issue({ expires_in })
      const stage = await onBehalf({ scope: String(expires_in) })
      const token = bearer(`for-${typeof expires_in}`)
      const first = await keyFor(stage, token)
      rig.clock.advance(keptMs - 1)
      expect(await keyFor(stage, token)).to.equal(first)
      rig.clock.advance(1)
      expect(await keyFor(stage, token)).to.not.equal(first)
    }
  })

  it('never gives one caller the token of another', async () => {
    const stage = await onBehalf()
    expect(await keyFor(stage, bearer('ada'))).to.equal('Bearer exchanged-1')
    expect(await keyFor(stage, bearer('bob'))).to.equal('Bearer exchanged-2')
    expect(await keyFor(stage, bearer('ada'))).to.equal('Bearer exchanged-1')
    expect(endpoint.exchanges.map(({ form }) => form.get('subject_token'))).to.deep.equal(['ada', 'bob'])
  })

  it('exchanges once for concurrent calls', async () => {
    const stage = await onBehalf()
    const keys = await Promise.all(Array.from({ length: 50 }, () => keyFor(stage, bearer())))
    expect(new Set(keys)).to.deep.equal(new Set(['Bearer exchanged-1']))
    expect(endpoint.exchanges).to.have.length(1)
  })

  it('caches tokens for a maximum number of callers and evicts the least recently used', async () => {
    const stage = await onBehalf({ cache_size: 2 })
    for (const caller of ['a', 'b', 'a', 'c', 'a', 'b']) await keyFor(stage, bearer(caller))
    expect(endpoint.exchanges.map(({ form }) => form.get('subject_token')).join('')).to.equal('abcb')
  })

  it('keeps its tokens across a reload', async () => {
    const before = await onBehalf()
    await keyFor(before, bearer())
    const after = await onBehalf()
    await before.stop?.()
    expect(await keyFor(after, bearer())).to.equal('Bearer exchanged-1')
    expect(endpoint.exchanges).to.have.length(1)
  })

  it('exchanges again when the upstream refuses a cached token, at a limited rate', async () => {
    const stage = await onBehalf()
    const fresh = await sendWith(stage, bearer())
    expect(await afterResponse(fresh, 401)).to.equal(undefined)
    rig.clock.advance(10_000)
    const kept = await sendWith(stage, bearer())
    expect(await afterResponse(kept, 403)).to.equal(undefined)
    const again = await afterResponse(kept, 401)
    expect(again).to.include({ value: 'Bearer exchanged-2' })
    expect(await afterResponse(await sendWith(stage, bearer()), 401)).to.equal(undefined)
    expect(endpoint.exchanges).to.have.length(2)
  })

  it('refuses a call without a validated token', async () => {
    const stage = await onBehalf()
    const anonymous = { tenant: 'acme', authenticated: false, roles: [] }
    for (const brokered of [
      await sendWith(stage, {}, anonymous),
      await sendWith(stage, bearer(), anonymous),
      await sendWith(stage, { authorization: 'Basic YTpi' }, ada),
    ]) {
      expect(why(brokered).said).to.equal(
        'BROKER_UNAVAILABLE: The credential for server "files" is not available: the call has no validated bearer token.',
      )
      expect(brokered.credential).to.equal(undefined)
    }
    expect(endpoint.exchanges).to.deep.equal([])
  })

  it('reports a refused exchange with its OAuth error code', async () => {
    const stage = await onBehalf()
    for (const [status, body, reason] of [
      [400, { error: 'invalid_grant', error_description: 'caller-token is revoked' }, 'invalid_grant'],
      [401, { error: 'invalid_client' }, 'invalid_client'],
      [403, { error: 'caller-token' }, 'no known reason'],
      [400, 'caller-token', 'no known reason'],
    ] as const) {
      endpoint.response((_exchange, response) => json(response, status, body))
      expect(why(await sendWith(stage, bearer()))).to.deep.equal({
        said: `BROKER_UNAVAILABLE: The credential for server "files" is not available: the token exchange was refused (${reason}).`,
        logged: `the token endpoint refused the exchange: ${status}, ${reason}`,
      })
    }
    endpoint.issue()
    expect(await keyFor(stage, bearer())).to.equal('Bearer exchanged-5')
  })

  const notJson = 'did not respond with a JSON object'
  const noToken = 'responded without an access_token'
  const notBearer = 'issued a token that is not a bearer token'
  const noTime = 'responded with an expires_in that is not a number of seconds'
  const idToken = 'urn:ietf:params:oauth:token-type:id_token'
  const rubbish: readonly (readonly [string, string, unknown])[] = [
    ['that is not JSON', notJson, '<html>caller-token</html>'],
    ['that is a list', notJson, []],
    ['without a token', noToken, { access_token: undefined }],
    ['whose token is a number', noToken, { access_token: 7 }],
    ['with an ID token', 'issued a token that is not an access token', { issued_token_type: idToken }],
    ['with a DPoP token', notBearer, { token_type: 'DPoP' }],
    ['without a token type', notBearer, { token_type: undefined }],
    ['whose token has expired already', noTime, { expires_in: 0 }],
    ['whose lifetime is not a number', noTime, { expires_in: 'long' }],
    [
      "with the caller's own token",
      "responded with the caller's own token",
      { access_token: 'caller-token' },
    ],
  ]
  for (const [title, line, body] of rubbish) {
    it(`accepts no response ${title}`, async () => {
      if (typeof body === 'object' && body !== null && !Array.isArray(body)) endpoint.issue({ ...body })
      else
        endpoint.response((_exchange, response) =>
          response.end(typeof body === 'string' ? body : JSON.stringify(body)),
        )
      expect(why(await sendWith(await onBehalf(), bearer()))).to.deep.equal({
        said: 'BROKER_UNAVAILABLE: The credential for server "files" is not available: the token endpoint is not available.',
        logged: `the token endpoint ${line}`,
      })
    })
  }

  it('accepts no token that is not a valid header value', async () => {
    endpoint.issue({ access_token: 'a\r\nx-admin: 1' })
    expect(await logged(onBehalf())).to.equal('the key contains characters that are not allowed in a header')
  })

  it('times out when the endpoint hangs, before or during its response', async () => {
    const stage = await onBehalf({ timeout_ms: 50 })
    endpoint.response(() => undefined)
    const timedOut = 'the token endpoint sent no complete response within 50 ms'
    expect(await logged(stage)).to.equal(timedOut)
    endpoint.response((_exchange, response) => response.writeHead(200).write('{"access_token":'))
    expect(await logged(stage)).to.equal(timedOut)
  })

  it('does not follow a redirect, and sends the token nowhere else', async () => {
    await using other = await startTokenEndpoint()
    endpoint.response((_exchange, response) => response.writeHead(307, { location: other.url }).end())
    expect(await logged(onBehalf())).to.equal(
      'the token endpoint responded with a redirect (307), which is not followed',
    )
    expect(other.exchanges).to.deep.equal([])
  })

  it('stops reading an endless response', async () => {
    endpoint.response((_exchange, response) => {
      const more = () => {
        while (response.write('x'.repeat(16_384)));
      }
      response.on('drain', more)
      more()
    })
    expect(await logged(onBehalf())).to.equal('the token endpoint responded with more than 64 KiB')
  })

  it('reports an unreachable endpoint', async () => {
    const stage = await onBehalf()
    await endpoint[Symbol.asyncDispose]()
    expect(await logged(stage)).to.equal('the token endpoint cannot be reached (ECONNREFUSED)')
  })

  it('backs off from an endpoint that keeps failing, and recovers when it is back', async () => {
    const stage = await onBehalf()
    endpoint.response((_exchange, response) => json(response, 503, {}))
    for (let n = 0; n < 3; n++) expect(await logged(stage)).to.match(/responded with 503$/)
    expect(await logged(stage)).to.equal(
      'the token endpoint failed 3 times in a row and is not asked again for 1 s',
    )
    expect(endpoint.exchanges).to.have.length(3)
    rig.clock.advance(1000)
    expect(await logged(stage)).to.match(/responded with 503$/)
    rig.clock.advance(1000)
    expect(await logged(stage)).to.match(/for 1 s$/)
    rig.clock.advance(1000)
    endpoint.issue()
    expect(await keyFor(stage, bearer())).to.equal('Bearer exchanged-5')
  })

  it('counts concurrent failures as one', async () => {
    const stage = await onBehalf()
    endpoint.response((_exchange, response) => json(response, 500, {}))
    await Promise.all(Array.from({ length: 40 }, (_, n) => sendWith(stage, bearer(`caller-${n}`))))
    rig.clock.advance(1000)
    endpoint.issue()
    expect(await keyFor(stage, bearer())).to.match(/^Bearer exchanged-/)
  })

  it('has no credential for requests of the gateway itself', async () => {
    const own = rig.serviceOf(await onBehalf(), services.ownCredential)
    expect(await own?.('files')).to.equal(undefined)
  })

  it('explains itself without a request', async () => {
    const stage = await onBehalf({ audience: 'files', scope: 'read' })
    const { call } = await sendWith(stage, bearer())
    endpoint.exchanges.splice(0)
    expect((await explain(stage, call)).lines).to.deep.equal([
      `exchanges the caller's token at ${endpoint.url} for the audience "files" with the scope "read", and puts the issued token into the header "authorization"`,
    ])
    expect(endpoint.exchanges).to.deep.equal([])
  })
})
