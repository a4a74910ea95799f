import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Stage } from '@svc/core'
import { expect } from 'chai'
import { exportJWK, generateKeyPair, type JWK } from 'jose'
import { Provider } from 'oidc-provider'
import { why } from '../../support/stage-rig.js'
import { AuthnRig, present } from './rig.js'

const resource = 'https://gateway.example/mcp'

async function signingKey(kid: string): Promise<JWK> {
  const { privateKey } = await generateKeyPair('RS256', { extractable: true })
  return { ...(await exportJWK(privateKey)), kid, use: 'sig', alg: 'RS256' }
}

describe('authn: an OpenID Connect provider', () => {
  let rig: AuthnRig
  let server: Server
  let issuer: string

  beforeEach(async () => {
    rig = await AuthnRig.start()
    server = createServer()
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
    provide([await signingKey('first')])
  })

  afterEach(async () => {
    server.closeAllConnections()
    await new Promise((resolve) => server.close(resolve))
    await rig[Symbol.asyncDispose]()
  })

  /** Replaces the provider by one with these keys, the first of which signs. */
  function provide(keys: JWK[]): void {
    const provider = new Provider(issuer, {
      clients: [
        {
          client_id: 'nightly-report',
          client_secret: 'a secret of the test',
          grant_types: ['client_credentials'],
          redirect_uris: [],
          response_types: [],
        },
      ],
      jwks: { keys },
      scopes: ['tools'],
      features: {
        devInteractions: { enabled: false },
        clientCredentials: { enabled: true },
        resourceIndicators: {
          enabled: true,
          defaultResource: () => resource,
          getResourceServerInfo: (_context, audience) => ({
            scope: 'tools',
            audience,
            accessTokenFormat: 'jwt',
            jwt: { sign: { alg: 'RS256' } },
          }),
        },
      },
      extraTokenClaims: () => ({ org: 'acme', roles: ['reporter'] }),
    })
    server.removeAllListeners('request')
    server.on('request', provider.callback())
  }

  async function discovered(): Promise<{ jwks_uri: string; token_endpoint: string }> {
    const response = await fetch(`${issuer}/.well-known/openid-configuration`)
    return (await response.json()) as { jwks_uri: string; token_endpoint: string }
  }

  async function accessToken(audience = resource): Promise<string> {
    const { token_endpoint } = await discovered()
    const response = await fetch(token_endpoint, {
      method: 'POST',
      headers: {
        authorization: `Basic ${Buffer.from('nightly-report:a+secret+of+the+test').toString('base64')}`,
      },
      body: new URLSearchParams({ grant_type: 'client_credentials', scope: 'tools', resource: audience }),
    })
    const { access_token } = (await response.json()) as { access_token?: string }
    if (access_token === undefined) throw new Error(`the provider gave no token: ${response.status}`)
    return access_token
  }

  async function stage(): Promise<Stage> {
    const { jwks_uri } = await discovered()
    // The provider uses the system clock.
    rig.clock.advance(Date.now() - rig.clock.now())
    return rig.stage({ issuer, audience: resource, jwks_uri })
  }

  it('issues access tokens that are accepted, as the service agent they name', async () => {
    const { identity } = await present(await stage(), await accessToken())
    expect(identity).to.deep.equal({
      tenant: 'acme',
      authenticated: true,
      userId: 'nightly-report',
      clientId: 'nightly-report',
      client: 'nightly-report',
      issuer,
      subject: 'nightly-report',
      roles: ['reporter'],
    })
  })

  it('issues access tokens for another resource, which are refused', async () => {
    const token = await accessToken('https://elsewhere.example/')
    expect(why(await present(await stage(), token))).to.equal(
      `UNAUTHENTICATED: The token is for the audience "https://elsewhere.example/"; this gateway is "${resource}".`,
    )
  })

  it('may rotate its keys at run time', async () => {
    const gate = await stage()
    const before = await accessToken()
    expect((await present(gate, before)).identity?.tenant).to.equal('acme')
    provide([await signingKey('second')])
    expect((await present(gate, await accessToken())).identity?.tenant).to.equal('acme')
    expect(why(await present(gate, before))).to.match(/names the key "first", which the issuer does not have/)
  })
})
