// Creates the findings of this section.
import type { Finding } from '@svc/core'

export function finding(reason: string, detail: string): Finding {
  return { reason, stage: 'security', level: 'gateway', detail }
}

/** A finding about the response, or about how long it takes. */
export function lateFinding(reason: string, detail: string): Finding {
  return { ...finding(reason, detail), isLate: true }
}

/** The paths of the keys that are the rules of findings, by the reason. */
export const findingKeys: Readonly<Record<string, readonly string[]>> = {
  version_unpinned: ['security', 'allow_versions'],
  egress_violation: ['security', 'egress_allowlist'],
  fs_violation: ['security', 'fs_allowlist'],
  payload_too_large: ['security', 'limits', 'max_payload_kb'],
  duration_too_long: ['security', 'limits', 'max_duration_ms'],
  missing_idempotency_for_side_effect: ['security', 'side_effects', 'require_idempotency_key'],
}
