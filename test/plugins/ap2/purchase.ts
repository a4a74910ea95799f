// One purchase: who issues mandates for it, the call's arguments, and a section of a policy for it.
import { generateLocalKey, type Issuance } from '@svc/plugin-ap2/dev'
import { FakeClock } from 'svc-sdk/testing'

export const issuer = generateLocalKey('EdDSA')
export const agent = generateLocalKey('ES256')
/** Signs for nobody. */
export const stranger = generateLocalKey('ES256')

export const nowSec = new FakeClock().now() / 1000

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
