// Stands in for the issuer of a policy, in memory, so that a test of the policy is judged by the claims of a token.
import type { Clock } from '@svc/core'
import type { JsonObject } from '@svc/core/json'
import type { GenerateKeyPairResult } from 'jose'
import { SignJWT } from 'jose/jwt/sign'
import { exportJWK } from 'jose/key/export'
import { generateKeyPair } from 'jose/key/generate/keypair'
import type { OidcConfig, SignatureAlgorithm } from './config.js'
import type { JwksSource } from './jwks-source.js'

/** Keys of these algorithms are made in a millisecond; RSA keys take a hundred times as long. */
const fast: readonly SignatureAlgorithm[] = ['ES256', 'ES384', 'ES512', 'EdDSA', 'Ed25519']

/** Seconds for which a token is valid whose claims do not say it. */
const VALID_SEC = 300

const pairs = new Map<SignatureAlgorithm, Promise<GenerateKeyPairResult>>()

function pairOf(alg: SignatureAlgorithm): Promise<GenerateKeyPairResult> {
  let pair = pairs.get(alg)
  if (pair === undefined) {
    pair = generateKeyPair(alg)
    pairs.set(alg, pair)
  }
  return pair
}

export class TestIssuer implements JwksSource {
  readonly #oidc: OidcConfig
  readonly #clock: Clock
  readonly #alg: SignatureAlgorithm

  constructor(oidc: OidcConfig, clock: Clock) {
    this.#oidc = oidc
    this.#clock = clock
    const { algorithms } = oidc
    this.#alg = fast.find((alg) => algorithms.includes(alg)) ?? algorithms[0] ?? 'ES256'
  }

  async load(): Promise<unknown> {
    const { publicKey } = await pairOf(this.#alg)
    return { keys: [{ ...(await exportJWK(publicKey)), alg: this.#alg, use: 'sig' }] }
  }

  /** Unless the claims are whole, `iss`, `aud` and `exp` are those that the policy accepts if the claims have none. */
  async tokenOf(claims: JsonObject, isWhole: boolean): Promise<string> {
    const { issuer, audience } = this.#oidc
    const now = Math.floor(this.#clock.now() / 1000)
    const own = isWhole ? {} : { iss: issuer, aud: audience, iat: now, exp: now + VALID_SEC }
    const { privateKey } = await pairOf(this.#alg)
    return new SignJWT({ ...own, ...claims })
      .setProtectedHeader({ alg: this.#alg, typ: 'JWT' })
      .sign(privateKey)
  }
}
