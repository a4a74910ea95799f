import type { Stage } from '@svc/core'
import { expect } from 'chai'
import { CredentialsProvider, privateJwk } from '../../support/credentials-provider.js'
import { ofSuite } from '../../support/parts.js'
import { why } from '../../support/stage-rig.js'
import { AuthnRig, present } from './rig.js'

const resource = 'https://gateway.example/mcp'

describe('authn: an OpenID Connect provider', () => {
  let provider: CredentialsProvider

  const rig = ofSuite(() => AuthnRig.start())
  before(async () => {
    const claims = { org: 'acme', roles: ['reporter'] }
    provider = await CredentialsProvider.start({ resource, clientId: 'nightly-report', claims })
    provider.provide([await privateJwk('first', 'RS256')])
  })

  after(() => provider[Symbol.asyncDispose]())

  async function stage(): Promise<Stage> {
    const { jwks_uri } = await provider.endpoints()
    // The provider uses the system clock.
    rig.clock.set(Date.now())
    return rig.stage({ issuer: provider.issuer, audience: resource, jwks_uri })
  }

  it('issues access tokens that are accepted, as the service agent they name', async () => {
    const { identity } = await present(await stage(), await provider.accessToken())
    expect(identity).to.deep.equal({
      tenant: 'acme',
      authenticated: true,
      userId: 'nightly-report',
      clientId: 'nightly-report',
      client: 'nightly-report',
      issuer: provider.issuer,
      subject: 'nightly-report',
      roles: ['reporter'],
      scopes: ['tools'],
    })
  })

  it('issues access tokens for another resource, which are refused', async () => {
    const token = await provider.accessToken('https://elsewhere.example/')
    expect(why(await present(await stage(), token))).to.equal(
      `UNAUTHENTICATED: The token is for the audience "https://elsewhere.example/"; this gateway is "${resource}".`,
    )
  })

  it('may rotate its keys at run time', async () => {
    const gate = await stage()
    const before = await provider.accessToken()
    expect((await present(gate, before)).identity?.tenant).to.equal('acme')
    provider.provide([await privateJwk('second', 'RS256')])
    expect((await present(gate, await provider.accessToken())).identity?.tenant).to.equal('acme')
    expect(why(await present(gate, before))).to.match(/names the key "first", which the issuer does not have/)
  })
})
