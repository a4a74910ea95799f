// The section's rules on what arguments hold.
import type { SecurityConfig } from './config.js'
import type { StringRule } from './content/rules.js'
import { EgressRule } from './egress/judge.js'
import { EgressAllowlist } from './egress/patterns.js'

/** The rules of the lists that are there, compiled. */
export function contentRules({ egress_allowlist }: SecurityConfig): StringRule[] {
  const rules: StringRule[] = []
  if (egress_allowlist !== undefined) {
    const rule = new EgressRule(new EgressAllowlist(egress_allowlist), false)
    rules.push({ reason: 'egress_violation', list: 'egress_allowlist', rule })
  }
  return rules
}
