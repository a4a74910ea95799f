// The `security` section: rules on versions, hosts, paths, side effects, sizes and durations of calls.
import {
  type ConfigConflict,
  type ConfiguredRule,
  type DependencyContainer,
  definePlugin,
  escalatingRules,
  identity,
  owned,
  type PluginContext,
  policyTokens,
  resolveOptional,
  responseTimeLeft,
  services,
  sideEffects,
  tokens,
} from '@svc/core'
import { defined, sha256Hex } from '@svc/core/json'
import { unknownServers } from '@svc/core/policy'
import { type SecurityConfig, securitySchema } from './config.js'
import { contentRules } from './content-rules.js'
import { systemTimer, timer } from './duration-limit.js'
import { escalationRule } from './human-escalation.js'
import { SideEffectRule, sideEffectPolicy } from './side-effects.js'
import { SecurityStage } from './stage.js'
import { AllowedVersions } from './versions.js'

const BYTES_PER_KB = 1024

export const securityPlugin = definePlugin({
  name: 'security',
  version: '1.0.0',
  core: '^1.0.0',
  schema: securitySchema,
  phase: 'inspection',
  uses: [identity],
  provides: [sideEffects, responseTimeLeft],
  owns: [
    owned(policyTokens.escalationRule, ({ side_effects }: SecurityConfig) => escalationRule(side_effects)),
    owned(policyTokens.rules, rulesOf),
    owned(services.namedVersions, ({ allow_versions }: SecurityConfig) => allow_versions),
  ],
  check: (config, bindings) => [
    ...ineffective(config, bindings),
    ...versionRanges(config),
    // With a misspelled name, the intended server would not be restricted.
    ...unknownServers(['security', 'allow_versions'], config.allow_versions, bindings),
  ],
  create(config, context) {
    const { allow_versions, limits: { max_payload_kb, max_duration_ms } = {} } = config
    const versions = allow_versions === undefined ? undefined : new AllowedVersions(allow_versions)
    const maxBytes = max_payload_kb === undefined ? undefined : Math.floor(max_payload_kb * BYTES_PER_KB)
    return new SecurityStage(
      {
        versions,
        content: contentRules(config),
        sideEffects: sideEffectRule(config, context),
        maxBytes,
        maxMs: max_duration_ms,
        basisOf: (reason) => basisOf(config, reason),
      },
      resolveOptional(context.container, timer) ?? systemTimer,
    )
  },
})

/** The keys that decide whether this is found about a call. */
function basisOf(config: SecurityConfig, reason: string): string {
  const { egress_allowlist, fs_allowlist, fs_root, limits, side_effects } = config
  const { tools, require_idempotency_key, trust_annotations, unknown } = side_effects ?? {}
  const keys =
    reason === 'payload_too_large'
      ? limits?.max_payload_kb
      : reason === 'missing_idempotency_for_side_effect'
        ? { tools, require_idempotency_key, trust_annotations, unknown }
        : { egress_allowlist, fs_allowlist, fs_root }
  return sha256Hex(JSON.stringify({ reason, keys }))
}

function sideEffectRule(
  { side_effects: section }: SecurityConfig,
  { container, targets }: PluginContext,
): SideEffectRule | undefined {
  if (section === undefined) return undefined
  const { tools, require_idempotency_key, trust_annotations, unknown } = section
  const annotations =
    trust_annotations === true ? resolveOptional(container, tokens.ToolAnnotations) : undefined
  const knowledge = {
    ...(tools === undefined ? {} : { policy: sideEffectPolicy(tools) }),
    ...(annotations === undefined ? {} : { annotations: annotations.among(targets) }),
    ...defined({ unknown }),
  }
  return new SideEffectRule(knowledge, require_idempotency_key === true)
}

function ineffective(
  { side_effects: section, fs_root, fs_allowlist }: SecurityConfig,
  bindings: DependencyContainer,
): ConfigConflict[] {
  const found: ConfigConflict[] = []
  const isForRules = escalatingRules(bindings).length > 0
  if (section?.human_escalation !== undefined && section.approve_high_risk !== true && !isForRules) {
    const path = ['security', 'side_effects', 'human_escalation']
    const message = 'has no effect without approve_high_risk: true, or a rule that escalates'
    found.push({ path, message, severity: 'warning' })
  }
  if (fs_root !== undefined && fs_allowlist === undefined) {
    const path = ['security', 'fs_root']
    found.push({ path, message: 'has no effect without fs_allowlist', severity: 'warning' })
  }
  return found
}

/** The reason of each configured rule, and its path. */
function rulesOf(config: SecurityConfig): readonly ConfiguredRule[] {
  const { limits, side_effects } = config
  const rules = [
    [config.allow_versions, 'version_unpinned', ['allow_versions']],
    [config.egress_allowlist, 'egress_violation', ['egress_allowlist']],
    [config.fs_allowlist, 'fs_violation', ['fs_allowlist']],
    [limits?.max_payload_kb, 'payload_too_large', ['limits', 'max_payload_kb']],
    [limits?.max_duration_ms, 'duration_too_long', ['limits', 'max_duration_ms']],
    [
      side_effects?.require_idempotency_key || undefined,
      'missing_idempotency_for_side_effect',
      ['side_effects', 'require_idempotency_key'],
    ],
  ] as const
  return rules.flatMap(([value, reason, path]) =>
    value === undefined ? [] : [{ reason, path: ['security', ...path] }],
  )
}

/** Only `*` is special in a version: a semver range would match nothing. */
function versionRanges({ allow_versions = {} }: SecurityConfig): ConfigConflict[] {
  return Object.entries(allow_versions).flatMap(([server, versions]) =>
    versions.flatMap((version, index): ConfigConflict[] => {
      if (!/^[\^~<>=]|\.x\b/.test(version)) return []
      const path = ['security', 'allow_versions', server, index]
      const message = `"${version}" is compared as text, not as a range; accepted are a version and * as in 1.*`
      return [{ path, message, severity: 'warning' }]
    }),
  )
}
