// How the gateway authenticates to the token endpoint: a secret (RFC 6749 §2.3.1) or a signed assertion
// (RFC 7523 §2.2).
import { createPrivateKey, type KeyObject, randomUUID } from 'node:crypto'
import type { Clock } from '@svc/core'
import { SignJWT } from 'jose'
import { BrokerError } from './broker.js'
import type { Keys } from './keys.js'

const assertionType = 'urn:ietf:params:oauth:client-assertion-type:jwt-bearer'
const assertionSec = 60

/** What client authentication adds to a request to the token endpoint. */
interface ClientAuthParameters {
  readonly headers: Readonly<Record<string, string>>
  readonly form: Readonly<Record<string, string>>
}

export interface ClientAuth {
  /** Rejects with `BrokerError`. */
  authenticate(): Promise<ClientAuthParameters>
}

interface SecretOptions {
  readonly clientId: string
  readonly ref: string
  readonly method: 'client_secret_basic' | 'client_secret_post'
}

export class SecretAuth implements ClientAuth {
  #options: SecretOptions
  #keys: Keys

  constructor(options: SecretOptions, keys: Keys) {
    this.#options = options
    this.#keys = keys
  }

  async authenticate(): Promise<ClientAuthParameters> {
    const { clientId, ref, method } = this.#options
    const secret = await this.#keys.get(ref)
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

interface AssertionOptions {
  readonly clientId: string
  readonly ref: string
  /** Default: that of the JWK. */
  readonly kid: string | undefined
  /** Default: by the type of the key. */
  readonly alg: string | undefined
  readonly audience: string
}

interface SigningKey {
  /** The text that the key was parsed from: the key is parsed again when the text changes. */
  readonly text: string
  readonly key: KeyObject
  readonly alg: string
  readonly kid: string | undefined
}

export class AssertionAuth implements ClientAuth {
  #options: AssertionOptions
  #keys: Keys
  #clock: Clock
  #key: SigningKey | undefined

  constructor(options: AssertionOptions, keys: Keys, clock: Clock) {
    this.#options = options
    this.#keys = keys
    this.#clock = clock
  }

  async authenticate(): Promise<ClientAuthParameters> {
    const { clientId, audience } = this.#options
    const { key, alg, kid } = this.#signingKey(await this.#keys.get(this.#options.ref))
    const now = Math.floor(this.#clock.now() / 1000)
    const assertion = await new SignJWT({})
      .setProtectedHeader({ alg, typ: 'JWT', ...(kid === undefined ? {} : { kid }) })
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

  #signingKey(text: string): SigningKey {
    if (this.#key?.text !== text) this.#key = readSigningKey(text, this.#options)
    return this.#key
  }
}

/** PEM (PKCS#8, PKCS#1, SEC1) or a JWK. Errors have no cause, because it could quote the key. */
function readSigningKey(text: string, { kid, alg }: AssertionOptions): SigningKey {
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
