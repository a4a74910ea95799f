// Checks the section against the others: reasons that no stage reports, and escalations that nobody could decide.
import {
  type ApprovalSet,
  type ConfigConflict,
  type ConfiguredRule,
  type DependencyContainer,
  type EscalatingRule,
  type EscalationRule,
  escalatingRules,
  hostOf,
  isErrorCode,
  policyTokens,
  type Reviewers,
  resolveOptional,
} from '@svc/core'
import type { EnforcementConfig } from './config.js'
import { canonicalReason, deniedReasons, isKnownReason, nearestReason } from './verdict.js'

/** The conflicts of a section with the other sections; `rule` is the one by which calls escalate, if any does. */
export function enforcementConflicts(
  config: EnforcementConfig,
  rule: EscalationRule | undefined,
  bindings: DependencyContainer,
): readonly ConfigConflict[] {
  return [
    ...unknownReasons(config, resolveOptional(bindings, policyTokens.reasons) ?? []),
    ...conflictsOfRule(config, rule, bindings),
    ...reportedOnly(config, resolveOptional(bindings, policyTokens.rules) ?? []),
  ]
}

function conflictsOfRule(
  { escalate_on }: EnforcementConfig,
  rule: EscalationRule | undefined,
  bindings: DependencyContainer,
): readonly ConfigConflict[] {
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
    const escalates = asksRuntime || Number(escalate_on?.length) > 0 || escalatingRules(bindings).length > 0
    if (escalates) return found
    const message = 'names no reason, no rule escalates, and no runtime is asked: nothing escalates'
    return [...found, { path: ['enforcement', 'escalate_on'], message, severity: 'warning' }]
  }
  if (escalate_on === undefined) return ofRules
  const message = 'has no effect without security.side_effects.approve_high_risk: true'
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

/** The path of a key of the rule in the policy; without a key, of the rule. */
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

/** An emergency needs people who review the call, and an issuer that states the roles of callers. */
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
