// Facts that one section of a policy states for others, at validation and when stages are created.
import type { EscalationRule, Reviewers } from '../call/escalation.js'
import type { PluginContext } from './plugin.js'

/** Which findings deny. */
export interface DenyRule {
  readonly mode: 'observe' | 'enforce'
  /** Reason tokens, aliases resolved; absent: every finding denies. */
  readonly denyOn?: readonly string[]
}

export interface PolicyFacts {
  /** Which findings deny. */
  readonly denies?: DenyRule
  /** How calls escalate; absent where none does. */
  readonly escalation?: EscalationRule
  /** Who may vote on escalations; absent without reviewers. */
  readonly reviewers?: Reviewers
  /** The configured rules that report findings, and where each is in the policy. */
  readonly rules?: readonly { readonly reason: string; readonly path: readonly string[] }[]
  /** Whether bearer tokens are validated, so that users are known. */
  readonly hasOidc?: boolean
  /** Whether idempotency keys are claimed in a store. */
  readonly hasIdempotency?: boolean
  /** Whether a remote runtime decides about calls and may escalate them. */
  readonly asksRuntime?: boolean
  /** The gateway's own tenant. From the host. */
  readonly tenant?: string
  /** The names in `targets`. From the host. */
  readonly servers?: readonly string[]
  /** Those of `servers` that get no HTTP headers: their targets are commands. From the host. */
  readonly serversWithoutHeaders?: readonly string[]
  /** Where relative paths and key references start; absent where key files are not checked. From the host. */
  readonly place?: Pick<PluginContext, 'baseDir' | 'stateDir' | 'env'>
  /** Whether rules refuse tools by name, so that `svc policy check` asks servers for theirs. */
  readonly refusesTools?: true
  /** Reason tokens of single stages. From the plugins' `reasons`. */
  readonly reasons?: readonly string[]
}

/** Sections of a policy that are valid by themselves and not together. */
export interface ConfigConflict {
  /** From the policy's root, beginning with the section, in the schemas' spelling. */
  readonly path: readonly (string | number)[]
  /** What is wrong, what is accepted. */
  readonly message: string
  /** Default: a mistake. */
  readonly severity?: 'warning'
}
