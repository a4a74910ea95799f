// Turns findings into one verdict. No other stage denies for a finding.
import {
  type ApprovalSet,
  bind,
  bindDefault,
  type ConfigConflict,
  type ConfiguredRule,
  type DependencyContainer,
  defaultEscalation,
  definePlugin,
  type EscalatingRule,
  type EscalationRule,
  type EscalationStore,
  escalatingRules,
  escalation,
  externalDecision,
  hostOf,
  identity,
  isErrorCode,
  owned,
  policyTokens,
  type Reviewers,
  redactor,
  resolve,
  resolveOptional,
  servedDefinition,
  services,
  sideEffects,
  token,
  tokens,
  verdict,
} from '@svc/core'
import { bindStore, checkForWorkers, type StoreResource } from '@svc/core/store'
import { compareEnforcement } from './compare.js'
import { type EnforcementConfig, enforcementSchema } from './config.js'
import { Escalations } from './escalation/escalations.js'
import { EnforcementStage } from './stage.js'
import { MemoryEscalationStore } from './store/memory/store.js'
import { escalationStore } from './stores.js'
import {
  canonicalReason,
  compileVerdict,
  deniedReasons,
  describeEscalation,
  describeRule,
  isKnownReason,
  nearestReason,
} from './verdict.js'

const escalationResource = token<StoreResource<EscalationStore>>('enforcement/StoreResource')

export const enforcementPlugin = definePlugin({
  name: 'enforcement',
  version: '1.0.0',
  core: '^1.0.0',
  schema: enforcementSchema,
  phase: 'decision',
  presence: 'always',
  metrics: {
    svc_escalations_opened_total: { kind: 'counter', help: 'Escalations opened.' },
    svc_escalations_approved_total: {
      kind: 'counter',
      help: 'Escalations approved, by votes, strategy or time-out.',
    },
    svc_escalations_rejected_total: {
      kind: 'counter',
      help: 'Escalations rejected, by votes or time-out.',
    },
    svc_escalations_expired_total: {
      kind: 'counter',
      help: 'Escalations decided by their time-out; also counted as approved or rejected.',
    },
    svc_escalation_emergencies_total: {
      kind: 'counter',
      help: 'Calls that ran before they were approved, in an emergency.',
    },
    svc_escalation_reviews_open: {
      kind: 'gauge',
      help: 'Emergency calls in the store whose review is open, of which each process counts all, once a minute.',
    },
    svc_escalations_used_total: { kind: 'counter', help: 'Approvals used to send a call.' },
    svc_escalation_store_failures_total: {
      kind: 'counter',
      help: 'Operations of the escalation store that failed.',
    },
    svc_escalation_store_duration_seconds: {
      kind: 'histogram',
      help: 'Time of an operation of the escalation store outside this process, in seconds.',
    },
  },
  uses: [externalDecision, identity, servedDefinition, sideEffects, redactor],
  provides: [verdict, escalation],
  check: (config, bindings) => [
    ...unknownReasons(config, resolveOptional(bindings, policyTokens.reasons) ?? []),
    ...checkTogether(config, bindings),
    ...reportedOnly(config, resolveOptional(bindings, policyTokens.rules) ?? []),
    ...checkForWorkers(config.escalations.adapter, ['enforcement', 'escalations', 'adapter'], bindings),
  ],

  owns: [
    owned(policyTokens.denyRule, ({ mode, deny_on }: EnforcementConfig) => ({
      mode,
      ...(deny_on === undefined ? {} : { denyOn: [...deniedReasons(deny_on)] }),
    })),
    {
      token: tokens.EscalationStore,
      selectedBy: ['adapter', 'redisUrl', 'dir'].map((key) => ['escalations', key]),
    },
  ],

  bindInMemory: (_config, { container }) =>
    bind(container, tokens.EscalationStore, { useValue: new MemoryEscalationStore() }),

  compare: (before = defaults, after = defaults) => compareEnforcement(before, after),

  register({ escalations }, context) {
    if (ruleOf(context.container) === undefined) return
    const resource = escalationStore(escalations, context)
    bindStore(context.container, { resource, own: escalationResource, port: tokens.EscalationStore })
  },

  create(config, context) {
    const rule = ruleOf(context.container)
    const compiled = compileVerdict(config, rule !== undefined && rule.isForRulingsAlone !== true)
    const record = () => resolveOptional(context.container, services.record)
    if (rule === undefined) return new EnforcementStage(compiled, [describeRule(config)], record)
    const store = resolve(context.container, escalationResource)
    const maxWaitMs = config.escalations.maxWaitSec * 1000
    const escalations = new Escalations(rule, store, maxWaitMs, context)
    bindDefault(context.container, services.escalations, { useCurrent: () => escalations.service })
    const description = [describeRule(config), describeEscalation(config, rule)]
    return new EnforcementStage(compiled, description, record, { rule, escalations })
  },

  doctor: async (_config, { container }) =>
    ruleOf(container) === undefined ? [] : resolve(container, escalationResource).doctor(),
})

/** The rule of a policy without the section. */
const defaults = enforcementSchema.parse({})

/** How calls escalate; undefined if none does. */
function ruleOf(container: DependencyContainer): EscalationRule | undefined {
  const rule = resolveOptional(container, policyTokens.escalationRule)
  if (escalatingRules(container).length > 0) {
    return rule ?? { ...defaultEscalation, isForRulingsAlone: true }
  }
  return rule?.isForRulingsAlone === true ? undefined : rule
}

function checkTogether(
  { escalate_on }: EnforcementConfig,
  bindings: DependencyContainer,
): readonly ConfigConflict[] {
  const rule = ruleOf(bindings)
  const ofRules =
    rule === undefined
      ? []
      : [
          ...unsatisfiableRulings(rule, bindings),
          ...unknownSecondSet(rule, bindings),
          ...impossibleEmergency(rule, bindings),
          ...missingPasskeys(rule, bindings),
        ]
  if (rule !== undefined && rule.isForRulingsAlone !== true) {
    const found = [
      ...unsatisfiableRules(rule, bindings, (key) => (key === undefined ? section : [...section, key])),
      ...ofRules,
    ]
    const asksRuntime = resolveOptional(bindings, policyTokens.asksRuntime) === true
    if (asksRuntime || (escalate_on !== undefined && escalate_on.length > 0)) return found
    const message = 'names no reason, and no runtime is asked: nothing escalates'
    return [...found, { path: ['enforcement', 'escalate_on'], message, severity: 'warning' }]
  }
  if (escalate_on === undefined) return ofRules
  const message = 'nothing escalates without security.side_effects.approve_high_risk: true'
  return [...ofRules, { path: ['enforcement', 'escalate_on'], message, severity: 'warning' }]
}

/** Rules whose findings are only recorded under the policy. */
function reportedOnly(
  { mode, deny_on, escalate_on = [] }: EnforcementConfig,
  rules: readonly ConfiguredRule[],
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

function hintAt(reason: string, declared: readonly string[]): string {
  const meant = nearestReason(reason, declared)
  const code = reason.toUpperCase()
  if (isErrorCode(code) && meant?.toUpperCase() !== code) {
    return `${code} is an error code; the reason is the denial_reason of the response`
  }
  return meant === undefined ? 'a custom stage declares its own as `reasons`' : `did you mean "${meant}"?`
}

function unknownReasons(config: EnforcementConfig, declared: readonly string[]): ConfigConflict[] {
  return (['deny_on', 'escalate_on'] as const).flatMap((key) =>
    (config[key] ?? []).flatMap((reason, index) => {
      if (isKnownReason(reason) || declared.includes(reason)) return []
      const message = `no stage reports "${reason}"; ${hintAt(reason, declared)}`
      return [{ path: ['enforcement', key, index], message }]
    }),
  )
}

const section = ['security', 'side_effects', 'human_escalation'] as const

/** Where a key of the rule is in the policy; without a key, the rule. */
type KeyPath = (key?: string) => ConfigConflict['path']

/** Rules that escalate: each approval set is checked once. */
function unsatisfiableRulings(rule: EscalationRule, bindings: DependencyContainer): ConfigConflict[] {
  const bySet = new Map<string | undefined, EscalatingRule>()
  for (const one of escalatingRules(bindings)) {
    if (!bySet.has(one.setId)) bySet.set(one.setId, one)
  }
  return [...bySet].flatMap(([setId, { path }]) => {
    // The policy's own rule is checked by itself.
    if (setId === undefined && rule.isForRulingsAlone !== true) return []
    const ofSet = setId === undefined ? rule : { ...rule, approvalSetId: setId }
    return unsatisfiableRules(ofSet, bindings, () => [
      ...path,
      setId === undefined ? 'then' : 'approval_set_id',
    ])
  })
}

function unsatisfiableRules(
  rule: EscalationRule,
  bindings: DependencyContainer,
  at: KeyPath,
): ConfigConflict[] {
  const { reviewers } = hostOf(bindings)
  if (rule.strategy === 'auto_allow') return []
  if (reviewers === undefined) {
    const then = rule.timeoutAction === 'auto_approve' ? 'approved' : 'rejected'
    const message = `there is no admin section, so nobody can vote: what escalates is ${then} when its time is over`
    return [{ path: at(), message, severity: 'warning' }]
  }
  const knowsUsers = resolveOptional(bindings, policyTokens.knowsUsers) === true
  return knowsUsers ? byUsers(rule, reviewers, at) : byAdminToken(rule, at)
}

const ADMIN_ALONE = 'without authn.oidc only the admin token votes, which is one person without roles'

/** Without OIDC the admin token is the only voter: one person, without roles, in no approval set. */
function byAdminToken(
  { requiredRoles, minApprovals, approvalSetId }: EscalationRule,
  at: KeyPath,
): ConfigConflict[] {
  const found: ConfigConflict[] = []
  if (requiredRoles.length > 0) {
    found.push({ path: at('required_roles'), message: `never met: ${ADMIN_ALONE}` })
  }
  if (minApprovals > 1) {
    found.push({ path: at('min_approvals'), message: `never reached: ${ADMIN_ALONE}` })
  }
  if (approvalSetId !== undefined) {
    found.push({ path: at('approval_set_id'), message: `none of its members can vote: ${ADMIN_ALONE}` })
  }
  return found
}

/** A review needs people, and a role somebody who states it. */
function impossibleEmergency({ emergency }: EscalationRule, bindings: DependencyContainer): ConfigConflict[] {
  if (emergency === undefined) return []
  const { reviewers } = hostOf(bindings)
  const path = [...section, 'emergency']
  const found: ConfigConflict[] = []
  if (resolveOptional(bindings, policyTokens.knowsUsers) !== true) {
    found.push({ path, message: 'no caller has a role: there is no authn.oidc' })
  }
  if (reviewers === undefined) {
    found.push({ path, message: 'there is no admin section, so nobody could review an emergency call' })
  }
  return found
}

function missingPasskeys(
  { requiresPasskey }: EscalationRule,
  bindings: DependencyContainer,
): ConfigConflict[] {
  const { reviewers } = hostOf(bindings)
  if (requiresPasskey === undefined || reviewers === undefined) return []
  const knowsUsers = resolveOptional(bindings, policyTokens.knowsUsers) === true
  const usable = (reviewers.passkeys ?? []).some(({ user }) => (user !== undefined) === knowsUsers)
  if (usable) return []
  const whose = knowsUsers ? 'a user' : 'the holder of the admin token, which is one without a user'
  return [{ path: [...section, 'require'], message: `admin.passkeys lists no passkey of ${whose}` }]
}

function unknownSecondSet({ secondSet }: EscalationRule, bindings: DependencyContainer): ConfigConflict[] {
  const { reviewers } = hostOf(bindings)
  if (secondSet === undefined || reviewers === undefined) return []
  const path = [...section, 'second_set', 'approval_set_id']
  if (resolveOptional(bindings, policyTokens.knowsUsers) === true) {
    return setOf(secondSet.setId, reviewers, path).conflicts
  }
  return [{ path, message: `none of its members can vote: ${ADMIN_ALONE}` }]
}

function setOf(id: string, { approvalSets }: Reviewers, path: ConfigConflict['path']) {
  const set = Object.hasOwn(approvalSets, id) ? approvalSets[id] : undefined
  if (set !== undefined) return { set, conflicts: [] }
  const known = Object.keys(approvalSets).join(', ') || 'none'
  return { conflicts: [{ path, message: `there is no "${id}" in admin.approval_sets; known: ${known}` }] }
}

function byUsers(rule: EscalationRule, reviewers: Reviewers, at: KeyPath): ConfigConflict[] {
  const { approvalSetId, minApprovals } = rule
  if (approvalSetId === undefined) {
    if (reviewers.roles !== undefined && reviewers.roles.length > 0) return []
    const message = 'nobody can vote; name the roles that may decide of escalations'
    return [{ path: ['admin', 'roles', 'reviewer'], message }]
  }
  const path = at('approval_set_id')
  const { set, conflicts } = setOf(approvalSetId, reviewers, path)
  if (set === undefined) return conflicts
  const max = maxMembers(set)
  if (max >= minApprovals) return []
  const message = `never satisfied: ${minApprovals} have to approve, and the set names ${max}`
  return [{ path, message }]
}

function maxMembers({ users = [], roles = [] }: ApprovalSet): number {
  return roles.length > 0 ? Number.POSITIVE_INFINITY : new Set(users).size
}
