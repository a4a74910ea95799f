import { createHmac } from 'node:crypto'
import { createServer, type IncomingHttpHeaders, request, type ServerOptions } from 'node:http'
import type { AddressInfo } from 'node:net'
import { authnPlugin } from '@svc/plugin-authn'
import { expect } from 'chai'
import { CompactEncrypt, CompactSign, exportSPKI, generateKeyPair } from 'jose'
import type { SignOptions } from '../../support/issuer.js'
import { refusal, why } from '../../support/stage-rig.js'
import { AuthnRig, present, sendWith } from './rig.js'

function encode(value: unknown): string {
  return Buffer.from(JSON.stringify(value)).toString('base64url')
}

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

describe('authn: tokens', () => {
  let rig: AuthnRig

  beforeEach(async () => {
    rig = await AuthnRig.start()
  })

  afterEach(() => rig[Symbol.asyncDispose]())

  it('accepts the caller that a valid token names', async () => {
    const stage = await rig.stage()
    const token = await rig.issuer.sign({ roles: ['admin', 'reader'] })
    expect((await present(stage, token)).identity).to.deep.equal({
      tenant: 'acme',
      authenticated: true,
      user: 'ada@example.com',
      userId: 'ada',
      issuer: rig.issuer.issuer,
      subject: 'ada',
      roles: ['admin', 'reader'],
    })
  })

  for (const alg of ['RS256', 'PS384', 'ES512', 'EdDSA', 'Ed25519']) {
    it(`verifies ${alg}`, async () => {
      const other = await AuthnRig.start({ alg })
      try {
        const answer = await present(await other.stage(), await other.issuer.sign())
        expect(answer.identity?.user).to.equal('ada@example.com')
      } finally {
        await other[Symbol.asyncDispose]()
      }
    })
  }

  it('accepts one audience of several', async () => {
    const answer = await present(await rig.stage(), await rig.issuer.sign({ aud: ['other', 'svc-gateway'] }))
    expect(answer.identity?.tenant).to.equal('acme')
  })

  describe('names the exact reason:', () => {
    const cases: [string, Record<string, unknown>, SignOptions, string][] = [
      ['an expired token', {}, { expiresIn: -60 }, 'The token expired at 2025-12-31T23:59:00.000Z.'],
      [
        'one that is not yet valid',
        {},
        { notBefore: 60 },
        'The token is not valid before 2026-01-01T00:01:00.000Z.',
      ],
      ['one without an expiry', {}, { expiresIn: null }, 'The token has no "exp" claim.'],
      ['an expiry that is no number', { exp: 'soon' }, {}, 'The token\'s "exp" claim is not a number.'],
      ['an expiry beyond all calendars', { exp: -1e300 }, {}, 'The token expired at -1e+300.'],
      [
        'another audience',
        { aud: 'billing' },
        {},
        'The token is for the audience "billing"; this gateway is "svc-gateway".',
      ],
      ['no audience', { aud: undefined }, {}, 'The token has no "aud" claim.'],
      ['no issuer', { iss: undefined }, {}, 'The token has no "iss" claim.'],
    ]
    for (const [title, claims, options, message] of cases) {
      it(title, async () => {
        const token = await rig.issuer.sign(claims, options)
        expect(why(await present(await rig.stage(), token))).to.equal(`UNAUTHENTICATED: ${message}`)
      })
    }

    it('an algorithm that is not accepted', async () => {
      const stage = await rig.stage({ algorithms: ['RS256', 'PS256'] })
      expect(why(await present(stage, await rig.issuer.sign()))).to.equal(
        'UNAUTHENTICATED: The token is signed with "ES256"; accepted are RS256, PS256.',
      )
    })

    it('an unknown critical header', async () => {
      const [, payload] = (await rig.issuer.sign()).split('.')
      const header = { alg: 'ES256', kid: rig.issuer.key.kid, crit: ['exp'], exp: 1 }
      expect(
        why(await present(await rig.stage(), `${encode(header)}.${payload}.${'A'.repeat(86)}`)),
      ).to.equal(
        'UNAUTHENTICATED: The token is malformed: Extension Header Parameter "exp" is not recognized.',
      )
    })

    it('another issuer', async () => {
      const stage = await rig.stage()
      const token = await rig.issuer.sign({ iss: 'https://elsewhere.example' })
      expect(why(await present(stage, token))).to.equal(
        `UNAUTHENTICATED: The token was issued by "https://elsewhere.example"; this gateway accepts "${rig.issuer.issuer}".`,
      )
    })

    it('another key under a known name', async () => {
      const stage = await rig.stage()
      const { privateKey } = await generateKeyPair('ES256')
      expect(why(await present(stage, await rig.issuer.sign({}, { key: privateKey })))).to.equal(
        'UNAUTHENTICATED: The token\'s signature does not verify against the issuer\'s key "key-1".',
      )
    })

    it('an unknown key', async () => {
      const stage = await rig.stage()
      expect(why(await present(stage, await rig.issuer.sign({}, { header: { kid: 'nobody' } })))).to.equal(
        'UNAUTHENTICATED: The token names the key "nobody", which the issuer does not have for ES256.',
      )
    })

    it('a changed claim', async () => {
      const stage = await rig.stage()
      const [header, , signature] = (await rig.issuer.sign()).split('.')
      const forged = `${header}.${encode({ org: 'other' })}.${signature}`
      expect(why(await present(stage, forged))).to.match(/signature does not verify/)
    })

    it('alg none, in whatever case', async () => {
      const stage = await rig.stage()
      const [, payload] = (await rig.issuer.sign()).split('.')
      expect(why(await present(stage, `${encode({ alg: 'none' })}.${payload}.`))).to.equal(
        'UNAUTHENTICATED: The token is not signed (alg "none").',
      )
      expect(why(await present(stage, `${encode({ alg: 'nOnE' })}.${payload}.`))).to.match(
        /^UNAUTHENTICATED: The token is signed with "nOnE"; accepted are/,
      )
    })

    it('HMAC with the public key as the secret', async () => {
      const stage = await rig.stage()
      const [, payload] = (await rig.issuer.sign()).split('.')
      const message = `${encode({ alg: 'HS256', kid: rig.issuer.key.kid })}.${payload}`
      const secret = await exportSPKI(rig.issuer.key.publicKey)
      const forged = `${message}.${createHmac('sha256', secret).update(message).digest('base64url')}`
      expect(why(await present(stage, forged))).to.match(
        /^UNAUTHENTICATED: The token is signed with "HS256"; accepted are RS256,/,
      )
    })

    it('an encrypted token', async () => {
      const stage = await rig.stage()
      const { publicKey } = await generateKeyPair('RSA-OAEP')
      const token = await new CompactEncrypt(new Uint8Array(8))
        .setProtectedHeader({ alg: 'RSA-OAEP', enc: 'A128GCM' })
        .encrypt(publicKey)
      expect(why(await present(stage, token))).to.equal(
        'UNAUTHENTICATED: The token is encrypted (JWE); only signed tokens (JWS) are accepted.',
      )
    })

    it('claims that are not an object', async () => {
      const stage = await rig.stage()
      const token = await new CompactSign(new TextEncoder().encode('[]'))
        .setProtectedHeader({ alg: 'ES256', kid: rig.issuer.key.kid })
        .sign(rig.issuer.key.privateKey)
      expect(why(await present(stage, token))).to.equal(
        'UNAUTHENTICATED: The token is malformed: JWT Claims Set must be a top-level JSON object.',
      )
    })

    for (const [title, token, message] of [
      ['an opaque token', 'abcdef', 'it is not a JWT of three parts'],
      ['a header that is no JSON', 'e30x.e30.e30', 'its header is not base64url of a JSON object'],
      [
        'a key name that is no string',
        `${encode({ alg: 'ES256', kid: 7 })}.e30.e30`,
        'the "kid" of its header is not a string',
      ],
    ] as const) {
      it(title, async () => {
        expect(why(await present(await rig.stage(), token))).to.equal(
          `UNAUTHENTICATED: The token is malformed: ${message}.`,
        )
      })
    }

    it('a token of unreasonable size, unread', async () => {
      expect(why(await present(await rig.stage(), 'a'.repeat(20_000)))).to.equal(
        'UNAUTHENTICATED: The token is longer than 16384 characters.',
      )
    })
  })

  it('allows the clocks to differ by clockToleranceSec and no more', async () => {
    const stage = await rig.stage({ clockToleranceSec: 10 })
    expect((await present(stage, await rig.issuer.sign({}, { expiresIn: -9 }))).identity?.user).to.be.a(
      'string',
    )
    expect((await present(stage, await rig.issuer.sign({}, { notBefore: 10 }))).identity?.user).to.be.a(
      'string',
    )
    expect(why(await present(stage, await rig.issuer.sign({}, { expiresIn: -10 })))).to.match(/expired/)
    expect(why(await present(stage, await rig.issuer.sign({}, { notBefore: 11 })))).to.match(
      /not valid before/,
    )
  })

  describe('a token without a key name', () => {
    it('is verified where the issuer has one key for its algorithm', async () => {
      const token = await rig.issuer.sign({}, { header: { kid: undefined } })
      expect((await present(await rig.stage(), token)).identity?.tenant).to.equal('acme')
    })

    it('is refused where there are several', async () => {
      await rig.issuer.rotate({ keep: true })
      const token = await rig.issuer.sign({}, { header: { kid: undefined } })
      expect(why(await present(await rig.stage(), token))).to.equal(
        'UNAUTHENTICATED: The token names no key ("kid"), and the issuer has 2 for ES256.',
      )
    })
  })

  describe('the challenge', () => {
    it('describes an invalid token as in RFC 6750, within its alphabet', async () => {
      const answer = refusal(
        await present(await rig.stage(), await rig.issuer.sign({ aud: 'caf\u00e9 "x"' })),
      )
      expect(answer.headers).to.deep.equal({
        'www-authenticate':
          'Bearer realm="svc", error="invalid_token", error_description="The token is for the audience ' +
          "'caf? ?'x?''; this gateway is 'svc-gateway'.\"",
      })
    })

    it('names only the scheme to a caller without a token', async () => {
      expect(refusal(await sendWith(await rig.stage())).headers).to.deep.equal({
        'www-authenticate': 'Bearer realm="svc"',
      })
    })
  })

  it('never prints a token', async () => {
    const stage = await rig.stage()
    const good = await rig.issuer.sign()
    const tokens = [
      await rig.issuer.sign({}, { expiresIn: -60 }),
      await rig.issuer.sign({ aud: 'x' }),
      `${good.slice(0, -8)}AAAAAAAA`,
      `${good}.x`,
      good.replace('.', '!'),
      'sekret-opaque-token',
    ]
    for (const token of tokens) {
      const printed = JSON.stringify([refusal(await present(stage, token)), rig.log.lines])
      for (const part of token.split('.')) if (part.length > 8) expect(printed).not.to.include(part)
    }
  })

  describe('the Authorization header', () => {
    it('names its scheme in any case', async () => {
      const stage = await rig.stage()
      const token = await rig.issuer.sign()
      for (const scheme of ['bearer', 'BEARER', 'Bearer ']) {
        const { identity } = await sendWith(stage, { authorization: `${scheme} ${token}` })
        expect(identity?.user).to.equal('ada@example.com')
      }
    })

    for (const [title, header, message] of [
      ['is empty', '', 'The Authorization header is malformed; send "Bearer <token>", once.'],
      ['has no token', 'Bearer', 'The Authorization header is malformed; send "Bearer <token>", once.'],
      [
        'has two tokens',
        'Bearer a.b.c d.e.f',
        'The Authorization header is malformed; send "Bearer <token>", once.',
      ],
      [
        'was joined from two',
        'Bearer a.b.c, Bearer d.e.f',
        'The Authorization header is malformed; send "Bearer <token>", once.',
      ],
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
      expect(why(await sendWith(stage, headers))).to.equal(
        'UNAUTHENTICATED: The Authorization header is malformed; send "Bearer <token>", once.',
      )
    })

    it('is refused when a parser gives two', async () => {
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
      const answer = await present(await rig.stage(), await rig.issuer.sign(), { 'x-tenant': 'acme' })
      expect(answer.identity?.tenant).to.equal('acme')
    })

    it('leaves the caller on record when it differs', async () => {
      const answer = await present(await rig.stage(), await rig.issuer.sign(), { 'x-tenant': 'other' })
      expect(refusal(answer).code).to.equal('UNAUTHORIZED_TENANT')
      expect(answer.identity?.user).to.equal('ada@example.com')
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
    const answer = await present(await rig.stage(), await rig.issuer.sign({}, { key: privateKey }))
    expect(refusal(answer).code).to.equal('UNAUTHENTICATED')
    expect(answer.identity).to.equal(undefined)
  })

  it('refuses a token without oidc to check it', async () => {
    expect(why(await present(await rig.start(authnPlugin, {}), await rig.issuer.sign()))).to.match(
      /^UNAUTHENTICATED: No token can be validated without authn.oidc: set authn.oidc/,
    )
  })

  it('says that the token can be left out where calls without one are accepted', async () => {
    const stage = await rig.start(authnPlugin, { allowUnauthenticated: true })
    expect(why(await present(stage, await rig.issuer.sign()))).to.equal(
      'UNAUTHENTICATED: No token can be validated without authn.oidc: send none, as authn.allowUnauthenticated allows, or set authn.oidc (issuer, audience, jwks_uri).',
    )
  })

  it('fails closed when it was not started', async () => {
    const stage = rig.create(authnPlugin, { oidc: rig.issuer.oidc })
    expect(refusal(await present(stage, await rig.issuer.sign())).code).to.equal('UNAUTHENTICATED')
  })
})
