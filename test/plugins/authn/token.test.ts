import { createHmac } from 'node:crypto'
import { authnPlugin } from '@svc/plugin-authn'
import { expect } from 'chai'
import { CompactEncrypt, CompactSign, exportSPKI, generateKeyPair } from 'jose'
import { controlOf, makeCall } from '../../support/call.js'
import type { SignOptions } from '../../support/issuer.js'
import { refusal, sendWithHolds, served, why } from '../../support/stage-rig.js'
import { AuthnRig, present, sendWith } from './rig.js'

function encode(value: unknown): string {
  return Buffer.from(JSON.stringify(value)).toString('base64url')
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
      await using other = await AuthnRig.start({ alg })
      const response = await present(await other.stage(), await other.issuer.sign())
      expect(response.identity?.user).to.equal('ada@example.com')
    })
  }

  it('accepts a token as long as the headers of a request may be', async () => {
    const token = await rig.issuer.sign({ groups: 'g'.repeat(20_000) })
    expect((await present(await rig.stage(), token)).identity?.user).to.be.a('string')
  })

  it('accepts one audience of several', async () => {
    const response = await present(
      await rig.stage(),
      await rig.issuer.sign({ aud: ['other', 'svc-gateway'] }),
    )
    expect(response.identity?.tenant).to.equal('acme')
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
      ['an expiry that is not a number', { exp: 'soon' }, {}, 'The token\'s "exp" claim is not a number.'],
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

    type Build = () => string | Promise<string>
    const payload = async () => (await rig.issuer.sign()).split('.')[1] ?? ''
    const unsigned = async (alg: string) => `${encode({ alg })}.${await payload()}.`
    const keyOf = (alg: string) => generateKeyPair(alg).then(({ privateKey }) => privateKey)
    const forged: [title: string, token: Build, message: string | RegExp][] = [
      [
        'an unknown critical header',
        async () => {
          const header = { alg: 'ES256', kid: rig.issuer.key.kid, crit: ['exp'], exp: 1 }
          return `${encode(header)}.${await payload()}.${'A'.repeat(86)}`
        },
        'The token is malformed: Extension Header Parameter "exp" is not recognized.',
      ],
      [
        'another issuer',
        () => rig.issuer.sign({ iss: 'https://elsewhere.example' }),
        /^The token was issued by "https:\/\/elsewhere\.example"; this gateway accepts "http/,
      ],
      [
        'another key under a known name',
        async () => rig.issuer.sign({}, { key: await keyOf('ES256') }),
        'The token\'s signature does not verify against the issuer\'s key "key-1".',
      ],
      [
        'an unknown key',
        () => rig.issuer.sign({}, { header: { kid: 'nobody' } }),
        'The token names the key "nobody", which the issuer does not have for ES256.',
      ],
      [
        'a changed claim',
        async () => {
          const [header, , signature] = (await rig.issuer.sign()).split('.')
          return `${header}.${encode({ org: 'other' })}.${signature}`
        },
        /signature does not verify/,
      ],
      ['alg none', () => unsigned('none'), 'The token is not signed (alg "none").'],
      ['alg none in another case', () => unsigned('nOnE'), /^The token is signed with "nOnE"; accepted are/],
      [
        'HMAC with the public key as the secret',
        async () => {
          const message = `${encode({ alg: 'HS256', kid: rig.issuer.key.kid })}.${await payload()}`
          const secret = await exportSPKI(rig.issuer.key.publicKey)
          return `${message}.${createHmac('sha256', secret).update(message).digest('base64url')}`
        },
        /^The token is signed with "HS256"; accepted are RS256,/,
      ],
      [
        'an encrypted token',
        async () =>
          new CompactEncrypt(new Uint8Array(8))
            .setProtectedHeader({ alg: 'RSA-OAEP', enc: 'A128GCM' })
            .encrypt((await generateKeyPair('RSA-OAEP')).publicKey),
        'The token is encrypted (JWE); only signed tokens (JWS) are accepted.',
      ],
      [
        'claims that are not an object',
        () =>
          new CompactSign(new TextEncoder().encode('[]'))
            .setProtectedHeader({ alg: 'ES256', kid: rig.issuer.key.kid })
            .sign(rig.issuer.key.privateKey),
        'The token is malformed: JWT Claims Set must be a top-level JSON object.',
      ],
      ['an opaque token', () => 'abcdef', 'The token is malformed: it is not a JWT of three parts.'],
      [
        'a header that is not JSON',
        () => 'e30x.e30.e30',
        'The token is malformed: its header is not base64url of a JSON object.',
      ],
      [
        'a key name that is not a string',
        () => `${encode({ alg: 'ES256', kid: 7 })}.e30.e30`,
        'The token is malformed: the "kid" of its header is not a string.',
      ],
    ]
    for (const [title, token, message] of forged) {
      it(title, async () => {
        const reason = why(await present(await rig.stage(), await token())).replace('UNAUTHENTICATED: ', '')
        if (typeof message === 'string') expect(reason).to.equal(message)
        else expect(reason).to.match(message)
      })
    }

    it('an algorithm that is not accepted', async () => {
      const stage = await rig.stage({ algorithms: ['RS256', 'PS256'] })
      expect(why(await present(stage, await rig.issuer.sign()))).to.equal(
        'UNAUTHENTICATED: The token is signed with "ES256"; accepted are RS256, PS256.',
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
    it('is verified if the issuer has one key for its algorithm', async () => {
      const token = await rig.issuer.sign({}, { header: { kid: undefined } })
      expect((await present(await rig.stage(), token)).identity?.tenant).to.equal('acme')
    })

    it('is refused if there are several', async () => {
      await rig.issuer.rotate({ keep: true })
      const token = await rig.issuer.sign({}, { header: { kid: undefined } })
      expect(why(await present(await rig.stage(), token))).to.equal(
        'UNAUTHENTICATED: The token names no key ("kid"), and the issuer has 2 for ES256.',
      )
    })
  })

  describe('the challenge', () => {
    it('describes an invalid token as in RFC 6750, within its alphabet', async () => {
      const response = refusal(
        await present(await rig.stage(), await rig.issuer.sign({ aud: 'caf\u00e9 "x"' })),
      )
      expect(response.headers).to.deep.equal({
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

  it('fails closed when it was not started', async () => {
    const stage = rig.create(authnPlugin, { oidc: rig.issuer.oidc })
    expect(refusal(await present(stage, await rig.issuer.sign())).code).to.equal('UNAUTHENTICATED')
  })
})

describe('authn: a call that waits', () => {
  it('is refused if its token has expired directly before the send', async () => {
    await using rig = await AuthnRig.start()
    const stage = await rig.stage({ clockToleranceSec: 0 })
    const token = await rig.issuer.sign({ exp: Math.floor(rig.clock.now() / 1000) + 60 })
    for (const [waitedMs, code] of [
      [59_000, undefined],
      [61_000, 'UNAUTHENTICATED'],
    ] as const) {
      const call = makeCall({ headers: { authorization: `Bearer ${token}` } })
      const outcome = await sendWithHolds('authn', stage, call, async () => {
        if (code !== undefined) rig.clock.advance(waitedMs)
        return (await controlOf(call).commitHolds()) ?? served
      })
      expect(outcome.kind === 'completed' ? undefined : outcome.code).to.equal(code)
      if (code !== undefined) expect(outcome.headers).to.have.property('www-authenticate')
    }
  })
})
