// Statements of a policy for all plugins. Plugins bind the tokens of their sections (`owns`), and the host those of its keys,
// before any `check`. A token that the policy says nothing about is not bound.
import type { DependencyContainer } from 'tsyringe'
import type { EscalationRule, Reviewers } from '../call/escalation.js'
import type { PluginContext } from './plugin.js'
import { resolveOptional, token } from './tokens.js'

/** The findings that deny. */
export interface DenyRule {
  readonly mode: 'observe' | 'enforce'
  /** Reason tokens, aliases resolved; absent: every finding denies. */
  readonly denyOn?: readonly string[]
}

/** A configured rule that reports findings, and where it is in the policy. */
export interface ConfiguredRule {
  readonly reason: string
  readonly path: readonly string[]
}

/** A rule whose findings need an approval, and where it is in the policy. */
export interface EscalatingRule {
  readonly path: readonly (string | number)[]
  readonly setId?: string
}

/** The host's keys, as plugins need them. */
export interface PolicyHost {
  /** The gateway's own tenant. */
  readonly tenant?: string
  /** Who can send calls: this machine, other machines too, or the program that has the pipeline; absent if not known. */
  readonly callers?: 'local' | 'remote' | 'program'
  /** Number of processes that serve together under one supervisor; absent if it is one. */
  readonly workers?: number
  /** The names in `targets`; absent if they are not known. */
  readonly servers?: readonly string[]
  /** The policy itself has no targets: `servers` has the one of several that it is used for now. */
  readonly isForSeveral?: boolean
  /** The names in `servers` whose targets are commands, which get no HTTP headers. */
  readonly serversWithoutHeaders?: readonly string[]
  /** `vars`: values for the conditions of rules, each for all tenants or `{ default, tenants }`. */
  readonly vars?: Readonly<Record<string, unknown>>
  /** Who may vote on escalations; absent without an admin section. */
  readonly reviewers?: Reviewers
  /** The directory from which relative paths and key references start; absent if key files are not checked. */
  readonly place?: Pick<PluginContext, 'baseDir' | 'stateDir' | 'env' | 'secrets'>
}

export const policyTokens = {
  host: token<PolicyHost>('PolicyHost'),
  /** In a few words for the operator: who may call, and which tools. */
  admittedCallers: token<string>('AdmittedCallers'),
  allowedTools: token<string>('AllowedTools'),
  /** Reason tokens of single stages, from the plugins' `reasons`. */
  reasons: token<readonly string[]>('DeclaredReasons'),
  denyRule: token<DenyRule>('DenyRule'),
  /** How calls escalate; not bound if none does. */
  escalationRule: token<EscalationRule>('EscalationRule'),
  /** Rules that escalate, whatever `escalationRule` says; not bound if none does. */
  ruleEscalations: token<readonly EscalatingRule[]>('RuleEscalations'),
  /** The same for flows of labelled data. */
  flowEscalations: token<readonly EscalatingRule[]>('FlowEscalations'),
  /** The labels that rules give to responses; not bound if they give none. */
  ruleLabels: token<readonly string[]>('RuleLabels'),
  /** The JSON Schema of a tool's arguments, by a pattern that names one tool, if its definition is pinned. */
  toolSchemas: token<(pattern: string) => unknown>('ToolSchemas'),
  rules: token<readonly ConfiguredRule[]>('ConfiguredRules'),
  /** False if every caller may call without a token, so that nothing is hidden from one and shown to another. */
  needsToken: token<boolean>('NeedsToken'),
  /** Whether bearer tokens are validated, so that users are known. */
  knowsUsers: token<boolean>('KnowsUsers'),
  /** Whether tokens name units of callers. */
  knowsUnits: token<boolean>('KnowsUnits'),
  /** Whether idempotency keys are claimed in the `DedupeStore`. */
  claimsKeys: token<boolean>('ClaimsKeys'),
  /** Whether a remote runtime decides about calls and may escalate them. */
  asksRuntime: token<boolean>('AsksRuntime'),
  /** Whether rules refuse tools by name, so that `svc policy check` asks servers for theirs. */
  refusesTools: token<boolean>('RefusesTools'),
} as const

/** The rules and flows that escalate, whatever `escalationRule` says. */
export function escalatingRules(container: DependencyContainer): readonly EscalatingRule[] {
  return [policyTokens.ruleEscalations, policyTokens.flowEscalations].flatMap(
    (one) => resolveOptional(container, one) ?? [],
  )
}

/** Empty if no host has bound its keys. */
export function hostOf(container: DependencyContainer): PolicyHost {
  return resolveOptional(container, policyTokens.host) ?? {}
}
