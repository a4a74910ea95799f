// Turns findings into one verdict: the only place that denies for what others found.
import { definePlugin, judgement, type PluginContext, verdict } from '@svc/core'
import { type EnforcementConfig, enforcementSchema } from './config.js'
import { isKnownReason, nearestReason } from './reasons.js'
import { EnforcementStage } from './stage.js'
import { compileVerdict } from './verdict.js'

export const enforcementPlugin = definePlugin<EnforcementConfig>({
  name: 'enforcement',
  version: '0.1.0',
  core: '^1.0.0',
  schema: enforcementSchema,
  presence: 'always',
  uses: [judgement],
  provides: [verdict],
  create(config, context) {
    warnOfUnknown(config.deny_on ?? [], context)
    return new EnforcementStage(compileVerdict(config), ruleInWords(config))
  },
})

// A warning and no mistake: a custom stage may report tokens that nobody here has heard of.
function warnOfUnknown(denyOn: readonly string[], context: PluginContext): void {
  for (const [i, reason] of denyOn.entries()) {
    if (isKnownReason(reason)) continue
    const nearest = nearestReason(reason)
    const hint = nearest === undefined ? '' : `; did you mean "${nearest}"?`
    context.warn(`enforcement.deny_on[${i}]: no built-in stage reports "${reason}"${hint}`)
  }
}

function ruleInWords({ mode, deny_on }: EnforcementConfig): string {
  const denies =
    deny_on === undefined
      ? 'every finding denies (deny_on is absent)'
      : deny_on.length === 0
        ? 'no finding denies (deny_on is empty)'
        : `findings deny for ${deny_on.join(', ')}`
  return mode === 'observe'
    ? `mode observe: nothing is denied; otherwise ${denies}`
    : `mode enforce: ${denies}`
}
