// The section's rules on what arguments hold.
import type { SecurityConfig } from './config.js'
import type { StringRule } from './content/rules.js'
import { EgressAllowlist } from './egress/patterns.js'
import { EgressRule } from './egress/rule.js'
import { FsAllowlist, parseRoot } from './fs/patterns.js'
import { FsRule } from './fs/rule.js'

/** The rules of the lists that are there, compiled. */
export function contentRules({ egress_allowlist, fs_allowlist, fs_root }: SecurityConfig): StringRule[] {
  const rules: StringRule[] = []
  if (egress_allowlist !== undefined) {
    const rule = new EgressRule(new EgressAllowlist(egress_allowlist), fs_allowlist !== undefined)
    rules.push({ reason: 'egress_violation', list: 'egress_allowlist', rule })
  }
  if (fs_allowlist !== undefined) {
    const base = fs_root === undefined ? undefined : parseRoot(fs_root)
    const rule = new FsRule(new FsAllowlist(fs_allowlist, base))
    rules.push({ reason: 'fs_violation', list: 'fs_allowlist', rule })
  }
  return rules
}
