// End to end with a real OpenID Connect provider: it issues the caller's token, the gateway validates it, authenticates
// to the provider and exchanges it, and the upstream validates the issued token.
import { expect } from 'chai'
import { createLocalJWKSet, importJWK, type JWK, jwtVerify, SignJWT } from 'jose'
import { errors, type Provider } from 'oidc-provider'
import type { GatewaySettings } from 'svc-sdk'
import { CredentialsProvider, privateJwk } from '../../support/credentials-provider.js'
import { startTestGateway, type TestGateway } from '../../support/gateway.js'
import { callEcho, json, result } from '../../support/mcp-server.js'
import { startUpstream, type TestUpstream } from '../../support/upstream.js'

const gatewayAudience = 'https://gateway.example/mcp'
const filesAudience = 'https://files.example/'
const exchange = 'urn:ietf:params:oauth:grant-type:token-exchange'

function publicHalf({ d: _d, p: _p, q: _q, dp: _dp, dq: _dq, qi: _qi, ...rest }: JWK): JWK {
  return rest
}

describe('brokers: token exchange on behalf of the caller, with an OpenID Connect provider', () => {
  let provider: CredentialsProvider
  let issuer: string
  let issuerKey: JWK
  let gatewayKey: JWK
  let upstream: TestUpstream
  /** The validated tokens that the upstream received. */
  let seen: Record<string, unknown>[]

  before(async () => {
    issuerKey = await privateJwk('issuer', 'RS256')
    gatewayKey = await privateJwk('gateway', 'ES256')
    provider = await CredentialsProvider.start({
      resource: gatewayAudience,
      clientId: 'ada',
      otherClients: [
        {
          client_id: 'gw-basic',
          client_secret: 'a: secret+of 100% the/gateway',
          grant_types: [exchange],
        },
        {
          client_id: 'gw-jwt',
          grant_types: [exchange],
          token_endpoint_auth_method: 'private_key_jwt',
          token_endpoint_auth_signing_alg: 'ES256',
          jwks: { keys: [publicHalf(gatewayKey)] },
        },
      ],
      claims: { org: 'acme', email: 'ada@example.com' },
    })
    issuer = provider.issuer
    registerExchange(provider.provide([issuerKey]))
  })

  after(() => provider[Symbol.asyncDispose]())

  beforeEach(async () => {
    seen = []
    upstream = await startUpstream((call, response) => {
      const message = JSON.parse(call.body || '{}') as Record<string, unknown>
      validated(call.headers.authorization).then(
        (payload) => {
          seen.push(payload)
          json(response, result(message))
        },
        () => json(response, {}, 401),
      )
    })
  })

  afterEach(() => upstream[Symbol.asyncDispose]())

  async function validated(authorization = ''): Promise<Record<string, unknown>> {
    const keys = createLocalJWKSet({ keys: [publicHalf(issuerKey)] })
    const { payload } = await jwtVerify(authorization.replace(/^Bearer /, ''), keys, {
      issuer,
      audience: filesAudience,
    })
    return payload
  }

  // The provider checks the client; what an exchange issues is defined by each provider (RFC 8693 §2.2).
  function registerExchange(provider: Provider): void {
    provider.registerGrantType(
      exchange,
      async (context) => {
        const { params, client: actor } = context.oidc
        const keys = createLocalJWKSet({ keys: [publicHalf(issuerKey)] })
        const { payload } = await jwtVerify(params['subject_token'] ?? '', keys, {
          issuer,
          audience: gatewayAudience,
        }).catch(() => {
          throw new errors.InvalidGrant('the subject token is not for this client')
        })
        if (params['audience'] !== filesAudience) throw new errors.InvalidTarget('unknown audience')
        const token = new SignJWT({
          email: payload['email'],
          act: { sub: actor.clientId },
          scope: params['scope'],
        })
          .setProtectedHeader({ alg: 'RS256', kid: 'issuer' })
          .setIssuer(issuer)
          .setAudience(filesAudience)
          .setExpirationTime('5m')
        context.body = {
          access_token: await token.sign(await importJWK(issuerKey, 'RS256')),
          issued_token_type: 'urn:ietf:params:oauth:token-type:access_token',
          token_type: 'Bearer',
          expires_in: 300,
        }
      },
      ['subject_token', 'subject_token_type', 'audience', 'scope'],
    )
  }

  function gateway(more: object): Promise<TestGateway> {
    const broker = {
      type: 'oidc_on_behalf' as const,
      token_endpoint: `${issuer}/token`,
      audience: filesAudience,
      scope: 'tools',
      inject: { header: 'authorization', format: 'bearer' as const },
      ...more,
    }
    const options: GatewaySettings = {
      targets: { files: upstream.url },
      authn: { oidc: { issuer, audience: gatewayAudience, jwks_uri: `${issuer}/jwks` } },
      brokers: { files: broker },
      env: { SECRET: 'a: secret+of 100% the/gateway', KEY: JSON.stringify(gatewayKey) },
    }
    return startTestGateway(options)
  }

  const ways = [
    ['a secret', 'gw-basic', { client_id: 'gw-basic', client_secret_ref: 'env:SECRET' }],
    [
      'a private key',
      'gw-jwt',
      { client_id: 'gw-jwt', private_key_ref: 'env:KEY', assertion_audience: undefined },
    ],
  ] as const
  for (const [how, actor, more] of ways) {
    it(`serves the call as the caller, with client authentication by ${how}, over both protocols`, async () => {
      const audience = how === 'a secret' ? {} : { assertion_audience: issuer }
      await using serving = await gateway({ ...more, ...audience })
      const headers = { authorization: `Bearer ${await provider.accessToken()}` }
      expect((await serving.invoke('/mcp/files/read@1', {}, headers)).status).to.equal(200)
      const response = await fetch(`${serving.url}/mcp/files`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', ...headers },
        body: JSON.stringify(callEcho),
      })
      expect(await response.json()).to.have.nested.property('result.content')
      expect(seen).to.have.length(2)
      for (const claims of seen) {
        expect(claims).to.deep.include({
          aud: filesAudience,
          email: 'ada@example.com',
          act: { sub: actor },
          scope: 'tools',
        })
      }
      expect(upstream.calls.map(({ headers }) => headers.authorization)).to.not.include(headers.authorization)
    })
  }

  it('does not send a call whose exchange the provider refuses, and records why', async () => {
    await using serving = await gateway({
      client_id: 'gw-basic',
      client_secret_ref: 'env:SECRET',
      audience: 'https://other.example/',
    })
    const response = await serving.invoke(
      '/mcp/files/read@1',
      {},
      { authorization: `Bearer ${await provider.accessToken()}` },
    )
    expect(response.status).to.equal(502)
    expect(await response.json()).to.include({
      error: 'BROKER_UNAVAILABLE',
      message:
        'The credential for server "files" is not available: the token exchange was refused (invalid_target).',
    })
    expect(upstream.calls).to.deep.equal([])
    expect(serving.records()[0]).to.include({ error: 'BROKER_UNAVAILABLE', status: 'error' })
  })

  it('does not exchange a token that was not issued for the gateway', async () => {
    await using serving = await gateway({ client_id: 'gw-basic', client_secret_ref: 'env:SECRET' })
    const token = await provider.accessToken('https://elsewhere.example/')
    const response = await serving.invoke('/mcp/files/read@1', {}, { authorization: `Bearer ${token}` })
    expect(response.status).to.equal(401)
    expect(upstream.calls).to.deep.equal([])
  })
})
