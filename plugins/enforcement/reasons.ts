// Which reason tokens a `deny_on` entry covers, and which entries look like typing errors.

import { reasons } from '@svc/core'
import { nearest } from '@svc/core/policy'

const ALIASES: ReadonlyMap<string, string> = new Map([
  ['idempotency_missing', 'missing_idempotency_for_side_effect'],
])

/** The one token for a reason that has two names. */
export function canonicalReason(reason: string): string {
  return ALIASES.get(reason) ?? reason
}

/** Every token that the entries of a `deny_on` deny. */
export function deniedReasons(denyOn: readonly string[]): ReadonlySet<string> {
  const denied = new Set(denyOn.map(canonicalReason))
  // A tool in a denylist is not in the allowlist either.
  if (denied.has('tool_not_in_allowlist')) denied.add('tool_in_denylist')
  return denied
}

const KNOWN: readonly string[] = [...reasons, ...ALIASES.keys()]

/** False for a token that no built-in stage reports. */
export function isKnownReason(reason: string): boolean {
  return KNOWN.includes(reason)
}

/** The known token that was probably meant. */
export function nearestReason(reason: string, declared: readonly string[]): string | undefined {
  return nearest(reason, [...KNOWN, ...declared])
}
