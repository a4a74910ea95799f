// The `security` section: rules on versions, hosts, paths, side effects, sizes and durations of calls.
import {
  bindDefault,
  definePlugin,
  identity,
  type PluginContext,
  resolveOptional,
  sideEffectPolicy,
  sideEffects,
  tokens,
} from '@svc/core'
import { nearest } from '@svc/core/policy'
import { type SecurityConfig, securitySchema } from './config.js'
import { contentRules } from './content-rules.js'
import { escalationRule } from './human-escalation.js'
import { SideEffectRule } from './side-effects.js'
import { SecurityStage } from './stage.js'
import { systemTimer, timer } from './timer.js'
import { AllowedVersions } from './versions.js'

const BYTES_PER_KB = 1024

export const securityPlugin = definePlugin({
  name: 'security',
  version: '0.1.0',
  core: '^1.0.0',
  schema: securitySchema,
  phase: 'inspection',
  uses: [identity],
  provides: [sideEffects],
  facts: ({ side_effects: section }) => {
    const escalation = escalationRule(section)
    return escalation === undefined ? {} : { escalation }
  },
  check: ({ side_effects: section }) =>
    section?.human_escalation === undefined || section.approve_high_risk === true
      ? []
      : [
          {
            path: ['security', 'side_effects', 'human_escalation'],
            message: 'has no effect without approve_high_risk: true',
            severity: 'warning',
          },
        ],
  register: (_config, { container }) => bindDefault(container, timer, { useValue: systemTimer }),
  create(config, context) {
    const { allow_versions, limits: { max_payload_kb, max_duration_ms } = {} } = config
    const versions = allow_versions === undefined ? undefined : new AllowedVersions(allow_versions)
    if (config.fs_root !== undefined && config.fs_allowlist === undefined) {
      context.warn('security.fs_root: has no effect without fs_allowlist')
    }
    warnAboutUnknownServers(versions?.servers ?? [], context)
    const maxBytes = max_payload_kb === undefined ? undefined : Math.floor(max_payload_kb * BYTES_PER_KB)
    return new SecurityStage(
      {
        versions,
        content: contentRules(config),
        sideEffects: sideEffectRule(config, context),
        maxBytes,
        maxMs: max_duration_ms,
      },
      resolveOptional(context.container, timer) ?? systemTimer,
    )
  },
})

function sideEffectRule(
  { side_effects: section }: SecurityConfig,
  { container, targets }: PluginContext,
): SideEffectRule | undefined {
  if (section === undefined) return undefined
  const { tools, require_idempotency_key, trust_annotations } = section
  const annotations =
    trust_annotations === true ? resolveOptional(container, tokens.ToolAnnotations) : undefined
  const knowledge = {
    ...(tools === undefined ? {} : { policy: sideEffectPolicy(tools) }),
    ...(annotations === undefined ? {} : { annotations: annotations.among(targets) }),
  }
  return new SideEffectRule(knowledge, require_idempotency_key === true)
}

// A misspelled server name would leave the intended server unrestricted.
function warnAboutUnknownServers(servers: readonly string[], context: PluginContext): void {
  const known = Object.keys(context.targets)
  const names = new Set(known.map((name) => name.normalize('NFC')))
  for (const server of servers) {
    if (names.has(server)) continue
    const suggestion = nearest(server, known)
    const hint = suggestion === undefined ? '' : `; did you mean "${suggestion}"?`
    context.warn(`security.allow_versions: no target is named "${server}"${hint}`)
  }
}
