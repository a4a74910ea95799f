// Mandates for one purchase, and a verifier of them.
import type { JsonObject } from '@svc/core/json'
import {
  generateLocalKey,
  type Issuance,
  type IssuedBundle,
  issueMandates,
  type MandateShape,
} from '@svc/plugin-ap2/dev'
import { didJwk } from '@svc/plugin-ap2/internal/keys/did-jwk'
import { didKey } from '@svc/plugin-ap2/internal/keys/did-key'
import { IssuerKeys, type IssuerRules } from '@svc/plugin-ap2/internal/keys/issuer-keys'
import { MandateFault, type MandateReason } from '@svc/plugin-ap2/internal/mandate/fault'
import { parsePresented } from '@svc/plugin-ap2/internal/presented/presented'
import { type VerifiedMandate, Verifier, type VerifierRules } from '@svc/plugin-ap2/internal/verify/verifier'
import { FakeClock } from 'svc-sdk/testing'

export const issuer = generateLocalKey('EdDSA')
export const agent = generateLocalKey('ES256')
/** Signs for nobody. */
export const stranger = generateLocalKey('ES256')

const clock = new FakeClock()
export const nowSec = clock.now() / 1000

export const purchase = {
  total: 19900,
  currency: 'USD',
  merchant: { id: 'merchant_1', name: 'Demo Merchant' },
  items: [
    { id: 'shoe', title: 'Shoe', quantity: 1 },
    { id: 'lace', title: 'Lace', quantity: 2 },
  ],
  instrument: { id: 'card_1', type: 'card' },
}

/** A call for the purchase. */
export const args = {
  amount: purchase.total,
  currency: 'USD',
  card: 'card_1',
  lines: [
    { sku: 'shoe', count: 1 },
    { sku: 'lace', count: 2 },
  ],
}

export const binding = {
  total: '/amount',
  currency: '/currency',
  merchant: { is: 'merchant_1' },
  items: { list: '/lines', id: '/sku', quantity: '/count' },
  instrument: '/card',
}

export const section = {
  requireForSideEffects: true,
  trust: { issuersAllowlist: [issuer.did] },
  tools: { bind: { 'shop/buy': binding } },
}

export const issuance: Issuance = {
  issuer,
  agent,
  purchase,
  audience: 'shop',
  subject: 'user-1',
  issuedAt: nowSec,
  lifeSec: 600,
}

export function issue(shape: MandateShape, over: Partial<Issuance> = {}): Promise<IssuedBundle> {
  return issueMandates(shape, { ...issuance, ...over })
}

interface Rules extends Partial<IssuerRules>, Partial<VerifierRules> {
  readonly audiences?: readonly string[]
  readonly clock?: FakeClock
}

function verifierOf(rules: Rules = {}): Verifier {
  const { allowed = new Set([issuer.did]), didMethods, pinned = new Map(), methods } = rules
  const builtin = { key: didKey, jwk: didJwk }
  const keys = new IssuerKeys({ allowed, didMethods, pinned, methods: methods ?? builtin })
  const algorithms = rules.algorithms ?? new Set(['ES256', 'ES384', 'EdDSA'])
  return new Verifier({ algorithms, skewSec: rules.skewSec ?? 30 }, keys, rules.clock ?? clock)
}

/** The verified mandates. Rejects with `MandateFault`. */
export async function verify(
  values: Iterable<string | JsonObject>,
  rules: Rules = {},
): Promise<readonly VerifiedMandate[]> {
  const { signed } = await parsePresented(values)
  return verifierOf(rules).verify(signed, new Set(rules.audiences ?? ['shop']))
}

/** The reason of the first check that fails, or `verified`. */
export async function reasonFor(
  values: Iterable<string | JsonObject>,
  rules: Rules = {},
): Promise<MandateReason | 'verified'> {
  try {
    await verify(values, rules)
    return 'verified'
  } catch (fault) {
    if (fault instanceof MandateFault) return fault.reason
    throw fault
  }
}
