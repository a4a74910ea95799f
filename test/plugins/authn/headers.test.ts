import { createServer, type IncomingHttpHeaders, request, type ServerOptions } from 'node:http'
import type { AddressInfo } from 'node:net'
import { authnPlugin } from '@svc/plugin-authn'
import { expect } from 'chai'
import { generateKeyPair } from 'jose'
import { ofEachTest } from '../../support/parts.js'
import { refusal, why } from '../../support/stage-rig.js'
import { AuthnRig, present, sendWith } from './rig.js'

/** The headers that a real server parses from these lines. */
async function asReceived(options: ServerOptions, lines: string[]): Promise<IncomingHttpHeaders> {
  const server = createServer(options)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  try {
    return await new Promise((resolve, reject) => {
      server.once('request', (received, response) => {
        response.end()
        resolve(received.headers)
      })
      const { port } = server.address() as AddressInfo
      request({ port, host: '127.0.0.1', headers: lines }).once('error', reject).end()
    })
  } finally {
    server.closeAllConnections()
    await new Promise((resolve) => server.close(resolve))
  }
}

describe('authn: headers', () => {
  const rig = ofEachTest(() => AuthnRig.start())

  describe('the Authorization header', () => {
    const malformed = 'The Authorization header is malformed; send "Bearer <token>", once.'

    it('names its scheme in any case', async () => {
      const stage = await rig.stage()
      const token = await rig.issuer.sign()
      for (const scheme of ['bearer', 'BEARER', 'Bearer ']) {
        const { identity } = await sendWith(stage, { authorization: `${scheme} ${token}` })
        expect(identity?.user).to.equal('ada@example.com')
      }
    })

    for (const [title, header, message] of [
      ['is empty', '', malformed],
      ['has no token', 'Bearer', malformed],
      ['has two tokens', 'Bearer a.b.c d.e.f', malformed],
      ['was joined from two', 'Bearer a.b.c, Bearer d.e.f', malformed],
      [
        'has another scheme',
        'Basic c2VrcmV0',
        'The Authorization scheme "Basic" is not accepted; send "Bearer <token>".',
      ],
      [
        'is a bare token',
        'c2VrcmV0c2VrcmV0c2VrcmV0',
        'The Authorization scheme is not accepted; send "Bearer <token>".',
      ],
    ] as const) {
      it(`is refused when it ${title}, with or without allowUnauthenticated`, async () => {
        for (const allowUnauthenticated of [false, true]) {
          const stage = await rig.stage({}, { allowUnauthenticated })
          expect(why(await sendWith(stage, { authorization: header }))).to.equal(
            `UNAUTHENTICATED: ${message}`,
          )
        }
      })
    }

    it('is refused if it came twice and the server joins repeated headers', async () => {
      const stage = await rig.stage()
      const token = `Bearer ${await rig.issuer.sign()}`
      const headers = await asReceived({ joinDuplicateHeaders: true }, [
        'host',
        'gateway.example',
        'authorization',
        token,
        'authorization',
        token,
      ])
      expect(why(await sendWith(stage, headers))).to.equal(`UNAUTHENTICATED: ${malformed}`)
    })

    it('is refused when the HTTP parser gives two values', async () => {
      const stage = await rig.stage()
      const token = `Bearer ${await rig.issuer.sign()}`
      const headers = { authorization: [token, token] as unknown as string }
      expect(why(await sendWith(stage, headers))).to.equal(
        'UNAUTHENTICATED: There is more than one Authorization header; send one.',
      )
    })
  })

  describe('x-tenant', () => {
    it('may equal the tenant of the token', async () => {
      const response = await present(await rig.stage(), await rig.issuer.sign(), { 'x-tenant': 'acme' })
      expect(response.identity?.tenant).to.equal('acme')
    })

    it('leaves the caller on record when it differs', async () => {
      const response = await present(await rig.stage(), await rig.issuer.sign(), { 'x-tenant': 'other' })
      expect(refusal(response).code).to.equal('UNAUTHORIZED_TENANT')
      expect(response.identity?.user).to.equal('ada@example.com')
    })

    it('may not differ, for new and cached tokens', async () => {
      const stage = await rig.stage()
      const token = await rig.issuer.sign()
      for (const tenant of ['other', 'ACME', '', 'acme, acme']) {
        expect(why(await present(stage, token, { 'x-tenant': tenant }))).to.equal(
          `UNAUTHORIZED_TENANT: x-tenant says ${JSON.stringify(tenant)}, the token "acme".`,
        )
      }
    })
  })

  describe('calls without a token', () => {
    const whatToSet =
      'set authn.oidc (issuer, audience, jwks_uri) to validate tokens, or authn.allowUnauthenticated: true to accept calls without a token'

    it('are refused', async () => {
      expect(why(await sendWith(await rig.stage()))).to.equal(
        `UNAUTHENTICATED: A bearer token of "${rig.issuer.issuer}" is required; send "Authorization: Bearer <token>".`,
      )
    })

    it('are refused with the client id of the policy', async () => {
      expect(why(await sendWith(await rig.stage({ publicClientId: 'svc-clients' })))).to.match(
        /To sign in, configure the OAuth client id "svc-clients" in your MCP client\.$/,
      )
    })

    it('are refused without the section, saying what to set', async () => {
      expect(why(await sendWith(await rig.start(authnPlugin, {})))).to.equal(
        `UNAUTHENTICATED: This gateway accepts no calls: ${whatToSet}.`,
      )
    })

    it("are accepted with allowUnauthenticated, as the gateway's tenant", async () => {
      expect((await sendWith(await rig.stage({}, { allowUnauthenticated: true }))).identity).to.deep.equal({
        tenant: 'gateway-tenant',
        authenticated: false,
        roles: [],
      })
    })

    it('may not choose another tenant', async () => {
      const stage = await rig.start(authnPlugin, { allowUnauthenticated: true })
      expect((await sendWith(stage, { 'x-tenant': 'gateway-tenant' })).identity?.tenant).to.equal(
        'gateway-tenant',
      )
      expect(why(await sendWith(stage, { 'x-tenant': 'acme' }))).to.equal(
        'UNAUTHORIZED_TENANT: x-tenant says "acme"; a call without a token has the tenant "gateway-tenant".',
      )
    })
  })

  it('validates a token that is present though none is required', async () => {
    const stage = await rig.stage({}, { allowUnauthenticated: true })
    expect(why(await present(stage, await rig.issuer.sign({}, { expiresIn: -60 })))).to.match(/expired/)
  })

  it('does not reveal the claims of a refused token', async () => {
    const { privateKey } = await generateKeyPair('ES256')
    const response = await present(await rig.stage(), await rig.issuer.sign({}, { key: privateKey }))
    expect(refusal(response).code).to.equal('UNAUTHENTICATED')
    expect(response.identity).to.equal(undefined)
  })

  it('refuses a token without oidc to check it', async () => {
    expect(why(await present(await rig.start(authnPlugin, {}), await rig.issuer.sign()))).to.match(
      /^UNAUTHENTICATED: No token can be validated without authn.oidc: set authn.oidc/,
    )
  })

  it('says that the token can be left out if calls without one are accepted', async () => {
    const stage = await rig.start(authnPlugin, { allowUnauthenticated: true })
    expect(why(await present(stage, await rig.issuer.sign()))).to.equal(
      'UNAUTHENTICATED: No token can be validated without authn.oidc: send none, as authn.allowUnauthenticated allows, or set authn.oidc (issuer, audience, jwks_uri).',
    )
  })
})
