// Turns findings into one verdict. No other stage denies for a finding.
import {
  bindDefault,
  type ConfigConflict,
  definePlugin,
  type EscalationStore,
  escalation,
  externalDecision,
  identity,
  type LateBoundMembers,
  lifecycleMembers,
  type PolicyFacts,
  redactor,
  resolve,
  services,
  sideEffects,
  token,
  tokens,
  verdict,
} from '@svc/core'
import { bindStore, type StoreResource } from '@svc/core/store'
import { type EnforcementConfig, enforcementSchema } from './config.js'
import { describeEscalation, describeRule } from './describe.js'
import { Escalations } from './escalation/escalations.js'
import { unsatisfiableRules } from './escalation/policy-check.js'
import { metrics } from './metrics.js'
import { canonicalReason, deniedReasons, isKnownReason, nearestReason } from './reasons.js'
import { EnforcementStage } from './stage.js'
import { escalationStore } from './stores.js'
import { compileVerdict } from './verdict.js'

const escalationResource = token<StoreResource<EscalationStore>>('enforcement/StoreResource')

const members: LateBoundMembers<EscalationStore> = {
  ...lifecycleMembers,
  open: 'method',
  get: 'method',
  input: 'method',
  removeInput: 'method',
  latest: 'method',
  replace: 'method',
  remove: 'method',
  due: 'method',
  page: 'method',
}

export const enforcementPlugin = definePlugin({
  name: 'enforcement',
  version: '0.1.0',
  core: '^1.0.0',
  schema: enforcementSchema,
  phase: 'decision',
  presence: 'always',
  metrics,
  uses: [externalDecision, identity, sideEffects, redactor],
  provides: [verdict, escalation],
  check: (config, facts) => [
    ...unknownReasons(config, facts.reasons ?? []),
    ...checkTogether(config, facts),
    ...reportedOnly(config, facts.rules ?? []),
  ],

  facts: ({ mode, deny_on }) => ({
    denies: { mode, ...(deny_on === undefined ? {} : { denyOn: [...deniedReasons(deny_on)] }) },
  }),

  owns: [
    {
      token: tokens.EscalationStore,
      selectedBy: ['adapter', 'redisUrl', 'dir'].map((key) => ['escalations', key]),
    },
  ],

  register({ escalations }, context) {
    if (context.facts.escalation === undefined) return
    const resource = escalationStore(escalations, context)
    bindStore(context.container, { resource, own: escalationResource, port: tokens.EscalationStore, members })
  },

  create(config, context) {
    const { escalation: rule } = context.facts
    const compiled = compileVerdict(config, rule !== undefined)
    if (rule === undefined) return new EnforcementStage(compiled, [describeRule(config)])
    const store = resolve(context.container, escalationResource)
    const maxWaitMs = config.escalations.maxWaitSec * 1000
    const escalations = new Escalations(rule, store, maxWaitMs, context)
    bindDefault(context.container, services.escalations, { useCurrent: () => escalations.service })
    const description = [describeRule(config), describeEscalation(config, rule)]
    return new EnforcementStage(compiled, description, { rule, escalations })
  },

  doctor: async (_config, { container, facts }) =>
    facts.escalation === undefined ? [] : resolve(container, escalationResource).doctor(),
})

function checkTogether({ escalate_on }: EnforcementConfig, facts: PolicyFacts): readonly ConfigConflict[] {
  if (facts.escalation !== undefined) {
    const found = unsatisfiableRules(facts.escalation, facts)
    if (facts.asksRuntime === true || (escalate_on !== undefined && escalate_on.length > 0)) return found
    const message = 'names no reason, and no runtime is asked: nothing escalates'
    return [...found, { path: ['enforcement', 'escalate_on'], message, severity: 'warning' }]
  }
  if (escalate_on === undefined) return []
  const message = 'nothing escalates without security.side_effects.approve_high_risk: true'
  return [{ path: ['enforcement', 'escalate_on'], message, severity: 'warning' }]
}

/** Rules whose findings the policy records and lets pass. */
function reportedOnly(
  { mode, deny_on, escalate_on = [] }: EnforcementConfig,
  rules: NonNullable<PolicyFacts['rules']>,
): ConfigConflict[] {
  if (mode === 'observe' || deny_on === undefined) return []
  const effective = new Set([...deniedReasons(deny_on), ...escalate_on.map(canonicalReason)])
  return rules.flatMap(({ reason, path }): ConfigConflict[] =>
    effective.has(reason)
      ? []
      : [
          {
            path,
            message: `reported only: enforcement.deny_on does not name ${reason}`,
            severity: 'warning',
          },
        ],
  )
}

function unknownReasons(config: EnforcementConfig, declared: readonly string[]): ConfigConflict[] {
  return (['deny_on', 'escalate_on'] as const).flatMap((key) =>
    (config[key] ?? []).flatMap((reason, index) => {
      if (isKnownReason(reason) || declared.includes(reason)) return []
      const meant = nearestReason(reason, declared)
      const hint =
        meant === undefined ? 'a custom stage declares its own as `reasons`' : `did you mean "${meant}"?`
      const message = `no stage reports "${reason}"; ${hint}`
      return [{ path: ['enforcement', key, index], message }]
    }),
  )
}
