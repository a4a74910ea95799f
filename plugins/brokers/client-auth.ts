// How the gateway authenticates to the token endpoint: a secret (RFC 6749 §2.3.1) or a signed assertion
// (RFC 7523 §2.2).

import { createPrivateKey, type KeyObject, randomUUID } from 'node:crypto'
import { defined } from '@svc/core/json'
import type { BrokerInput } from './broker.js'
import { BrokerError } from './broker-error.js'
import type { BrokerConfig } from './config.js'

const assertionType = 'urn:ietf:params:oauth:client-assertion-type:jwt-bearer'
const assertionSec = 60

/** The additions of client authentication to a request to the token endpoint. */
interface ClientAuthParameters {
  readonly headers: Readonly<Record<string, string>>
  readonly form: Readonly<Record<string, string>>
}

/** Rejects with `BrokerError`. */
export type ClientAuth = () => Promise<ClientAuthParameters>

export function clientAuthOf(input: Pick<BrokerInput, 'config' | 'keys' | 'clock'>): ClientAuth {
  return input.config.client_secret_ref === undefined ? assertionAuth(input) : secretAuth(input)
}

function secretAuth({ config, keys }: Pick<BrokerInput, 'config' | 'keys'>): ClientAuth {
  const { client_id: clientId = '', client_secret_ref: ref = '', client_auth: method } = config
  return async () => {
    const secret = await keys.get(ref)
    if (method === 'client_secret_post') {
      return { headers: {}, form: { client_id: clientId, client_secret: secret } }
    }
    const pair = Buffer.from(`${formEncoded(clientId)}:${formEncoded(secret)}`).toString('base64')
    return { headers: { authorization: `Basic ${pair}` }, form: {} }
  }
}

/** RFC 6749 §2.3.1: both parts are form-encoded before they are joined. */
function formEncoded(text: string): string {
  return new URLSearchParams({ '': text }).toString().slice(1)
}

interface SigningKey {
  /** The text that the key was parsed from: the key is parsed again when the text changes. */
  readonly text: string
  readonly key: KeyObject
  readonly alg: string
  readonly kid: string | undefined
}

function assertionAuth({ config, keys, clock }: Pick<BrokerInput, 'config' | 'keys' | 'clock'>): ClientAuth {
  const { client_id: clientId = '', private_key_ref: ref = '', token_endpoint: endpoint = '' } = config
  const { assertion_audience: audience = endpoint } = config
  let known: SigningKey | undefined
  return async () => {
    const text = await keys.get(ref)
    if (known?.text !== text) known = readSigningKey(text, config)
    const { key, alg, kid } = known
    const now = Math.floor(clock.now() / 1000)
    const { SignJWT } = await import('jose/jwt/sign')
    const assertion = await new SignJWT({})
      .setProtectedHeader({ alg, typ: 'JWT', ...defined({ kid }) })
      .setIssuer(clientId)
      .setSubject(clientId)
      .setAudience(audience)
      .setJti(randomUUID())
      .setIssuedAt(now)
      .setExpirationTime(now + assertionSec)
      .sign(key)
      .catch(() => {
        throw keyError(`the private key cannot sign ${alg}`)
      })
    const form = { client_id: clientId, client_assertion_type: assertionType, client_assertion: assertion }
    return { headers: {}, form }
  }
}

/** PEM (PKCS#8, PKCS#1, SEC1) or a JWK. Errors have no cause, because it could quote the key. */
function readSigningKey(text: string, config: BrokerConfig): SigningKey {
  const { private_key_id: kid, private_key_alg: alg } = config
  const jwk = text.startsWith('{') ? parseJwk(text) : undefined
  let key: KeyObject
  try {
    key = createPrivateKey(jwk === undefined ? text : { key: jwk, format: 'jwk' })
  } catch {
    throw keyError('the private key is neither PEM without a passphrase nor a private JWK')
  }
  const named = typeof jwk?.['kid'] === 'string' ? jwk['kid'] : undefined
  return { text, key, alg: alg ?? algorithmOf(key), kid: kid ?? named }
}

function parseJwk(text: string): Record<string, unknown> {
  try {
    return JSON.parse(text) as Record<string, unknown>
  } catch {
    throw keyError('the private key starts with "{" but is not JSON')
  }
}

const byCurve: Readonly<Record<string, string>> = {
  prime256v1: 'ES256',
  secp384r1: 'ES384',
  secp521r1: 'ES512',
}

function algorithmOf(key: KeyObject): string {
  const type = key.asymmetricKeyType
  const curve = key.asymmetricKeyDetails?.namedCurve ?? ''
  const alg = type === 'rsa' ? 'RS256' : type === 'ed25519' ? 'EdDSA' : byCurve[curve]
  if (alg === undefined) throw keyError('the private key has a type that cannot sign assertions')
  return alg
}

function keyError(message: string): BrokerError {
  return new BrokerError(message, 'no key is usable')
}
