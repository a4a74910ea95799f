// Sends bad tokens to a whole gateway: each is refused with its own reason, nothing reaches the upstream, and each leaves
// one record, which contains neither the token nor the identity that it claims.
import { request } from 'node:http'
import { expect } from 'chai'
import { exportJWK, generateKeyPair } from 'jose'
import { startTestGateway } from '../support/gateway.js'
import { TestIssuer } from '../support/issuer.js'
import { ofSuite } from '../support/parts.js'
import { startUpstream } from '../support/upstream.js'

const path = '/mcp/files/read@1.0.0'

interface HttpResponse {
  readonly status: number
  readonly body: { readonly error: string; readonly message: string }
  readonly challenge: string | undefined
}

/** Headers are sent unchanged: two of one name are two lines. */
function post(url: string, authorization: string | string[]): Promise<HttpResponse> {
  return new Promise((resolve, reject) => {
    const sending = request(url + path, { method: 'POST' })
    sending.setHeader('authorization', authorization)
    sending.once('error', reject)
    sending.once('response', (message) => {
      let text = ''
      message.setEncoding('utf8').on('data', (piece: string) => {
        text += piece
      })
      message.once('end', () => {
        const challenge = message.headers['www-authenticate']
        resolve({
          status: message.statusCode ?? 0,
          body: JSON.parse(text) as HttpResponse['body'],
          challenge,
        })
      })
    })
    sending.end('{}')
  })
}

describe('authentication with a bad token', () => {
  const issuer = ofSuite(() => TestIssuer.start())
  const attacker = ofSuite(() => TestIssuer.start())
  const upstream = ofSuite(() => startUpstream((_call, response) => void response.end('{}')))
  // Unauthenticated calls are allowed, so a bad token must not be treated as a missing one.
  const gateway = ofSuite(() =>
    startTestGateway({
      targets: { files: upstream.url },
      authn: { oidc: issuer.oidc, allowUnauthenticated: true },
    }),
  )

  const bearer = async (claims: Record<string, unknown>, options = {}) =>
    `Bearer ${await issuer.sign({ sub: 'mallory', email: 'mallory@example.com', ...claims }, options)}`

  const nested = { roles: ['a', ['b']] }
  const wrong: Record<string, readonly [RegExp, () => Promise<string | string[]>]> = {
    'a tenant in a list': [/^UNAUTHENTICATED: .*is a list/, () => bearer({ org: ['acme'] })],
    'a tenant that is an object': [/^UNAUTHENTICATED: .*type object/, () => bearer({ org: { id: 'acme' } })],
    'an empty tenant': [/^UNAUTHENTICATED: .*is empty/, () => bearer({ org: '' })],
    'a tenant of spaces': [/^UNAUTHENTICATED: .*is empty/, () => bearer({ org: '  ' })],
    'a tenant of 10 KB': [/^UNAUTHENTICATED: .*10240 characters/, () => bearer({ org: 'x'.repeat(10_240) })],
    'a tenant that is a path': [/^UNAUTHENTICATED: .*slash/, () => bearer({ org: '../../etc/passwd' })],
    'a tenant that is a Windows path': [/^UNAUTHENTICATED: .*slash/, () => bearer({ org: '..\\acme' })],
    'a missing tenant': [/^UNAUTHORIZED_TENANT: .*no "org" claim/, () => bearer({ org: undefined })],
    'roles in lists of lists': [/^UNAUTHENTICATED: .*is a list/, () => bearer(nested)],
    'roles in an object': [
      /^UNAUTHENTICATED: .*values are unknown/,
      () => bearer({ roles: { admin: true } }),
    ],
    'an email address in a list': [
      /^UNAUTHENTICATED: .*"email" claim is a list/,
      () => bearer({ email: ['a@b.c'] }),
    ],
    'another audience': [/^UNAUTHENTICATED: .*audience "billing"/, () => bearer({ aud: 'billing' })],
    'another issuer': [/^UNAUTHENTICATED: .*issued by/, () => bearer({ iss: 'https://evil.example/' })],
    'an exp claim in the past': [/^UNAUTHENTICATED: The token expired/, () => bearer({}, { expiresIn: -60 })],
    'a missing exp claim': [/^UNAUTHENTICATED: .*no "exp" claim/, () => bearer({}, { expiresIn: null })],
    'an exp claim that is not a number': [
      /^UNAUTHENTICATED: .*"exp" claim is not a number/,
      () => bearer({ exp: 'never' }),
    ],
    'an nbf claim in the future': [
      /^UNAUTHENTICATED: .*not valid before/,
      () => bearer({}, { notBefore: 60 }),
    ],
    'two Authorization headers': [
      /^UNAUTHENTICATED: .*malformed/,
      async () => [await bearer({}), await bearer({ org: 'globex' })],
    ],
    'a key in the header of the token': [
      /^UNAUTHENTICATED: .*does not verify/,
      async () => {
        const { publicKey, privateKey } = await generateKeyPair('ES256', { extractable: true })
        const header = { jwk: await exportJWK(publicKey), jku: attacker.jwksUri, x5u: attacker.jwksUri }
        return bearer({}, { key: privateKey, header })
      },
    ],
    'Basic authentication': [
      /^UNAUTHENTICATED: .*"Basic" is not accepted/,
      async () => 'Basic bWFsbG9yeTpwYXNz',
    ],
    'an Authorization header without a token': [/^UNAUTHENTICATED: .*malformed/, async () => 'Bearer'],
  }

  for (const [what, [reason, header]] of Object.entries(wrong)) {
    it(`refuses ${what}`, async () => {
      const before = gateway.records().length
      const sent = upstream.calls.length
      const authorization = await header()
      const { status, body, challenge } = await post(gateway.url, authorization)
      expect(status).to.equal(401)
      expect(`${body.error}: ${body.message}`).to.match(reason)
      expect(challenge).to.match(/^Bearer realm="svc", error="invalid_token", .*error_description="/)
      expect(upstream.calls).to.have.lengthOf(sent)
      expect(attacker.requests).to.equal(0)
      const records = gateway.records().slice(before)
      expect(records).to.have.lengthOf(1)
      expect(records[0]).to.deep.include({
        tenant: 'acme',
        status: 'error',
        error: body.error,
        policy: { decision: 'deny', retention: 'standard' },
      })
      const written = JSON.stringify(records)
      for (const part of [authorization].flat()) {
        expect(written).to.not.include(part.split('.').at(-1) || part)
      }
      expect(written).to.not.include('mallory')
    })
  }

  it('accepts a valid token whose roles are a string', async () => {
    const response = await gateway.invoke(
      path,
      {},
      { authorization: await bearer({ roles: 'reader writer' }) },
    )
    expect(response.status).to.equal(200)
    expect(gateway.records().at(-1)?.principal).to.deep.include({ roles: ['reader', 'writer'] })
  })
})
