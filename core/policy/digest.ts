// The text of the policy, whose hash each record contains.

import { canonicalize } from '../json/canonical.js'
import type { PolicyLayer } from './types.js'

/**
 * The text of the policy, which is the last layer other than `options`: of an object its canonical JSON (RFC 8785)
 * without functions and instances. Undefined without a policy.
 */
export function policyTextOf(layers: readonly PolicyLayer[]): string | undefined {
  const policy = layers.findLast((layer) => layer.file !== 'options')
  if (policy === undefined) return undefined
  return 'text' in policy ? policy.text : canonicalize(asJson(policy.object, new Set()))
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
