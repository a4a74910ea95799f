// The hash that records carry, so that each says under which policy it was decided.

import { canonicalize } from '../json/canonical.js'
import { sha256Hex } from '../json/hash.js'
import type { PolicyLayer } from './types.js'

/**
 * SHA-256, hex, of the policy: the last layer that is not `options`. Of a text its bytes as UTF-8; of an
 * object the canonical JSON (RFC 8785) of what JSON can carry, functions and instances left out.
 */
export function policyDigest(layers: readonly PolicyLayer[]): string | null {
  const policy = layers.findLast((layer) => layer.file !== 'options')
  if (policy === undefined) return null
  return sha256Hex('text' in policy ? policy.text : canonicalize(asJson(policy.object, new Set())))
}

function asJson(value: unknown, within: Set<object>): unknown {
  if (value === null || typeof value === 'string' || typeof value === 'boolean') return value
  if (typeof value === 'number') return Number.isFinite(value) ? value : null
  if (typeof value !== 'object' || within.has(value)) return undefined
  within.add(value)
  try {
    if (Array.isArray(value)) return value.map((item: unknown) => asJson(item, within) ?? null)
    const prototype: unknown = Object.getPrototypeOf(value)
    if (prototype !== null && prototype !== Object.prototype) return undefined
    const members = Object.entries(value).map(([key, member]) => [key, asJson(member, within)] as const)
    return Object.fromEntries(members.filter(([, member]) => member !== undefined))
  } finally {
    within.delete(value)
  }
}
