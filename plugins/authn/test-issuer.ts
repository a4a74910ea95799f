// Stands in for the issuers of a policy, in memory, so that a test of the policy is judged by the claims of a token.
import type { Clock } from '@svc/core'
import type { JsonObject } from '@svc/core/json'
import type { GenerateKeyPairResult } from 'jose'
import { SignJWT } from 'jose/jwt/sign'
import { exportJWK } from 'jose/key/export'
import { generateKeyPair } from 'jose/key/generate/keypair'
import { audiencesOf, type OidcConfig, type SignatureAlgorithm } from './config.js'
import type { JwksSource } from './jwks-source.js'
import { accessTokenMark, TENANT_ID } from './presets.js'

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

/** Signs as the first issuer, unless the claims name another. */
export class TestIssuer implements JwksSource {
  readonly #issuers: readonly OidcConfig[]
  readonly #clock: Clock

  constructor(issuers: readonly OidcConfig[], clock: Clock) {
    this.#issuers = issuers
    this.#clock = clock
  }

  async load(uri: string): Promise<unknown> {
    const algorithms = this.#issuers.filter((one) => one.jwks_uri === uri).map(algorithmOf)
    const keys = [...new Set(algorithms)].map(async (alg) => ({
      ...(await exportJWK((await pairOf(alg)).publicKey)),
      alg,
      use: 'sig',
    }))
    return { keys: await Promise.all(keys) }
  }

  /** Unless the claims are whole, those that the policy requires are added if the claims have none. */
  async tokenOf(claims: JsonObject, isWhole: boolean): Promise<string> {
    const oidc = this.#issuers.find(({ issuer }) => issuer === claims['iss']) ?? this.#issuers[0]
    if (oidc === undefined) throw new Error('the policy has no issuer')
    const mark = accessTokenMark(oidc.preset, oidc.issuer)
    const now = Math.floor(this.#clock.now() / 1000)
    const iss = oidc.issuer.replaceAll(TENANT_ID, String(claims['tid']))
    const [audience] = audiencesOf(oidc)
    const accepted = { iss, [oidc.audienceClaim]: audience, iat: now, exp: now + VALID_SEC, ...mark?.example }
    const alg = algorithmOf(oidc)
    const { privateKey } = await pairOf(alg)
    return new SignJWT({ ...(isWhole ? {} : accepted), ...claims })
      .setProtectedHeader({ alg, typ: isWhole ? 'JWT' : (mark?.exampleType ?? 'JWT') })
      .sign(privateKey)
  }
}

function algorithmOf({ algorithms }: OidcConfig): SignatureAlgorithm {
  return fast.find((alg) => algorithms.includes(alg)) ?? algorithms[0] ?? 'ES256'
}
