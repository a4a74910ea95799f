// A session of the console that a program holds: its cookie, its CSRF token and its key, to send what no page would.
import { createHash, generateKeyPairSync, type KeyObject, randomBytes, sign } from 'node:crypto'
import { type Asking, ask, type HttpResponse } from '../app/admin/rig.js'

export interface SessionClient {
  /** `<name>=<value>`. */
  readonly cookie: string
  readonly csrf: string
  readonly key: KeyObject
}

export interface Claims {
  readonly method: string
  readonly path: string
  readonly body_sha256: string
  readonly at: number
  readonly nonce: string
}

export function newSessionKey() {
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const { kty, crv, x, y } = publicKey.export({ format: 'jwk' })
  return { privateKey, jwk: { kty, crv, x, y } }
}

/** Signs in with a token, as the page does. */
export async function beginSession(origin: string, bearer: string): Promise<SessionClient> {
  const { privateKey, jwk } = newSessionKey()
  const begun = await ask(origin, '/api/session', {
    method: 'POST',
    headers: { authorization: `Bearer ${bearer}`, 'content-type': 'application/json' },
    body: JSON.stringify({ key: jwk }),
  })
  const cookie = cookieOf(begun)
  return { cookie, csrf: await csrfOf(origin, cookie), key: privateKey }
}

/** The first cookie that a response sets. */
export function cookieOf({ status, headers, text }: HttpResponse): string {
  const [cookie = ''] = (headers.get('set-cookie') ?? '').split(';')
  if (cookie === '') throw new Error(`no cookie with ${status}: ${text}`)
  return cookie
}

async function csrfOf(origin: string, cookie: string): Promise<string> {
  const page = await ask(origin, '/console/approvals', { headers: { cookie } })
  const [, state = '{}'] = /<script type="application\/json" id="state">(.*)<\/script>/s.exec(page.text) ?? []
  return JSON.parse(state).csrf
}

/** The header of a change, true unless `claims` say otherwise. */
export function proofOf(
  key: KeyObject,
  { method = 'GET', body = '' }: Asking,
  path: string,
  claims: Partial<Claims> = {},
): string {
  const whole: Claims = {
    method,
    path,
    body_sha256: createHash('sha256').update(body).digest('base64url'),
    at: Date.now(),
    nonce: randomBytes(18).toString('base64url'),
    ...claims,
  }
  const payload = Buffer.from(JSON.stringify(whole)).toString('base64url')
  const signature = sign('sha256', Buffer.from(payload), { key, dsaEncoding: 'ieee-p1363' })
  return `${payload}.${signature.toString('base64url')}`
}

/** Sends a change as the page does, with `more` headers over its own. */
export function sendChange(
  origin: string,
  { cookie, csrf, key }: SessionClient,
  path: string,
  asking: Asking & { readonly claims?: Partial<Claims> },
): Promise<HttpResponse> {
  const { claims, headers, ...given } = { method: 'POST', body: '{}', ...asking }
  return ask(origin, path, {
    ...given,
    headers: {
      cookie,
      'content-type': 'application/json',
      'content-length': String(Buffer.byteLength(given.body)),
      'x-svc-csrf': csrf,
      'x-svc-proof': proofOf(key, given, path, claims),
      ...headers,
    },
  })
}
