// Mandates for the purchase, and a verifier of them.
import type { JsonObject } from '@svc/core/json'
import { type Issuance, type IssuedBundle, issueMandates, type MandateShape } from '@svc/plugin-ap2/dev'
import { didJwk, didKey } from '@svc/plugin-ap2/internal/keys/did-method'
import { IssuerKeys, type IssuerRules } from '@svc/plugin-ap2/internal/keys/issuer-keys'
import { MandateError, type MandateReason } from '@svc/plugin-ap2/internal/mandate/error'
import { parsePresented } from '@svc/plugin-ap2/internal/parse-mandates'
import {
  MandateVerifier,
  type VerifiedMandate,
  type VerifierRules,
} from '@svc/plugin-ap2/internal/verify/verifier'
import { FakeClock } from 'svc-sdk/testing'
import { issuance, issuer } from './purchase.js'

export * from './purchase.js'

const clock = new FakeClock()

export function issue(shape: MandateShape, over: Partial<Issuance> = {}): Promise<IssuedBundle> {
  return issueMandates(shape, { ...issuance, ...over })
}

interface Rules extends Partial<IssuerRules>, Partial<VerifierRules> {
  readonly audiences?: readonly string[]
  readonly openCheckoutHash?: string
  readonly clock?: FakeClock
}

function verifierOf(rules: Rules = {}): MandateVerifier {
  const { allowed = new Set([issuer.did]), didMethods, pinned = new Map(), methods } = rules
  const builtin = { key: didKey, jwk: didJwk }
  const keys = new IssuerKeys({ allowed, didMethods, pinned, methods: methods ?? builtin })
  const algorithms = rules.algorithms ?? new Set(['ES256', 'ES384', 'EdDSA'])
  const { skewSec = 30, role = 'merchant' } = rules
  return new MandateVerifier({ algorithms, skewSec, role }, keys, rules.clock ?? clock)
}

/** The verified mandates. Rejects with `MandateError`. */
export async function verify(
  values: Iterable<string | JsonObject>,
  rules: Rules = {},
): Promise<readonly VerifiedMandate[]> {
  const { signed } = await parsePresented(values)
  const { audiences = ['shop'], openCheckoutHash } = rules
  return verifierOf(rules).verify(signed, { audiences: new Set(audiences), openCheckoutHash })
}

/** The reason of the first check that fails, or `verified`. */
export async function reasonFor(
  values: Iterable<string | JsonObject>,
  rules: Rules = {},
): Promise<MandateReason | 'verified'> {
  try {
    await verify(values, rules)
    return 'verified'
  } catch (error) {
    if (error instanceof MandateError) return error.reason
    throw error
  }
}
