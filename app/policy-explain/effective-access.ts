// The tools that a policy lets a caller use, by the stages' explanations of a `tools/list` and of calls.
import {
  callRequest,
  type DescribedRule,
  decisionOfRefusal,
  type Identity,
  identity,
  type Limit,
  limits,
  type NamedCaller,
  type PluginContext,
  policyTokens,
  type RequestKind,
  resolveOptional,
  services,
  verdict,
} from '@svc/core'
import { compilePatternSet } from '@svc/core/match'
import type { InsertedStage, PlacedStage } from '@svc/core/pipeline'
import { listedReference } from '../mcp/references.js'
import { UNVERSIONED } from '../mcp/server-versions.js'
import type { Policy } from '../policy/config.js'
import { unsentCall } from '../policy/unsent-call.js'
import { explainedStages, judgeUnsent, toolListing, undecidedOf } from './explained-stages.js'

/** The tools of one server. */
export interface NamedTools {
  readonly server: string
  readonly tools: readonly { readonly name: string; readonly version: string }[]
}

/**
 * What a call of a tool gets: `approval` if a person decides about it first, `depends` if its arguments or headers decide,
 * `unknown` if a stage that does not explain itself does.
 */
export type ToolVerdict = 'allow' | 'approval' | 'deny' | 'depends' | 'unknown'

export interface ToolJudgement {
  readonly server: string
  readonly tool: string
  readonly verdict: ToolVerdict
  /** What the verdict depends on, who decides, or why it is not known. */
  readonly because: readonly string[]
  /** Reason token of the refusal; undefined if not every call is denied. */
  readonly refused: string | undefined
  /** `plan: 100 calls per day`. */
  readonly limits: readonly string[]
}

export class EffectiveAccess {
  readonly #all: readonly PlacedStage[]
  readonly #granting: readonly PlacedStage[]
  readonly #knowsUsers: boolean
  readonly #conditional: readonly ConditionalRule[]

  /** `inserted` is a stage of the gateway. Throws what a plugin's `create` throws. */
  constructor(policy: Policy, context: PluginContext, inserted?: InsertedStage) {
    // Without validated tokens, callers are nobody in particular.
    this.#knowsUsers = resolveOptional(context.container, policyTokens.knowsUsers) !== false
    this.#all = explainedStages(policy, policy.plugins, context, inserted)
    const granting = new Set(
      policy.plugins.filter(({ phase }) => phase === 'authorization').map(({ name }) => name),
    )
    this.#conditional = conditionalRules(resolveOptional(policy.container, services.describedRules) ?? [])
    this.#granting = this.#all.filter(({ name }) => granting.has(name))
  }

  async judge(
    caller: NamedCaller,
    { server, tools }: NamedTools,
    hasLimits = true,
  ): Promise<ToolJudgement[]> {
    const who = this.#knowsUsers ? identityOf(caller) : undefined
    const listing = toolListing(who, server, tools[0]?.version ?? UNVERSIONED)
    const outcome = await judgeUnsent(this.#all)(listing)
    const refusedAll =
      outcome.kind === 'completed'
        ? undefined
        : ((outcome.kind === 'denied' ? outcome.denial?.reason : undefined) ?? outcome.code)
    return Promise.all(
      tools.map(async ({ name: tool, version }): Promise<ToolJudgement> => {
        const reference = listedReference(server, 'tool', tool, version)
        if (reference === undefined) return denial(server, tool, 'BAD_REQUEST')
        const refused =
          refusedAll ??
          (listing.call.mayRequest(reference, 'tool')
            ? undefined
            : (listing.call.denialOf(reference, 'tool')?.reason ?? 'TOOL_NOT_ALLOWED'))
        if (refused !== undefined) return denial(server, tool, refused)
        const called = { server, tool, version }
        const found = hasLimits ? await this.#limitsOf(who, called) : []
        const judged = listing.call.mayUse(reference, 'tool')
          ? await this.#verdictOf(who, called, reference)
          : { verdict: 'approval' as const, because: [] }
        return { server, tool, ...judged, refused: undefined, limits: found }
      }),
    )
  }

  /** Of a tool that no list or rule denies, whatever its arguments. */
  async #verdictOf(
    who: Identity | undefined,
    called: CalledTool,
    reference: string,
  ): Promise<Pick<ToolJudgement, 'verdict' | 'because'>> {
    const control = callOf(called)
    if (who !== undefined) control.call.set(identity, who)
    const outcome = await judgeUnsent(this.#all)(control)
    const decision = outcome.kind === 'completed' ? 'allow' : decisionOfRefusal(outcome.code)
    // In observe mode no rule changes what happens to a call.
    const isObserved = control.call.get(verdict)?.mode === 'observe'
    const conditions = isObserved ? [] : this.#conditional.filter(({ matches }) => matches(reference, 'tool'))
    if (conditions.length > 0) return { verdict: 'depends', because: conditions.map(({ text }) => text) }
    if (decision === 'escalate' || decision === 'confirm') return { verdict: 'approval', because: [] }
    if (outcome.kind !== 'completed') {
      const reason = (outcome.kind === 'denied' ? outcome.denial?.reason : undefined) ?? outcome.code
      return { verdict: 'depends', because: [reason] }
    }
    const because = undecidedOf(control.call)
    return because.length === 0 ? { verdict: 'allow', because } : { verdict: 'unknown', because }
  }

  async #limitsOf(who: Identity | undefined, called: CalledTool): Promise<string[]> {
    const control = callOf(called)
    if (who !== undefined) control.call.set(identity, who)
    await judgeUnsent(this.#granting)(control)
    return (control.call.get(limits) ?? []).map(describe)
  }
}

interface CalledTool {
  readonly server: string
  readonly tool: string
  readonly version: string
}

function denial(server: string, tool: string, refused: string): ToolJudgement {
  return { server, tool, verdict: 'deny', because: [], refused, limits: [] }
}

interface ConditionalRule {
  readonly text: string
  matches(reference: string, kind: RequestKind): boolean
}

/** Rules whose condition decides whether a call is denied or waits. */
function conditionalRules(rules: readonly DescribedRule[]): ConditionalRule[] {
  return rules.flatMap(({ name, tools, condition, isRequired, effect }) => {
    if (condition === undefined || effect === 'report') return []
    const patterns = tools.length === 0 ? undefined : compilePatternSet(tools)
    return {
      text: `${effect} ${isRequired ? 'unless' : 'if'} ${condition} (rule ${name})`,
      matches: (reference) => patterns === undefined || patterns.findReading([reference]) !== undefined,
    }
  })
}

/** A call without arguments, which is not sent. */
function callOf({ server, tool, version }: CalledTool) {
  return unsentCall(
    callRequest({
      kind: 'tool',
      method: null,
      server,
      name: tool,
      version,
      args: {},
      idempotencyKey: null,
    }),
  )
}

function identityOf({ tenant, kind, name }: NamedCaller): Identity {
  const base = { tenant, authenticated: true, roles: kind === 'role' ? [name] : [] }
  switch (kind) {
    case 'user':
      return { ...base, user: name }
    case 'user_id':
      return { ...base, user: name, userId: name }
    case 'agent':
      return { ...base, clientId: name }
    default:
      return base
  }
}

function describe({ level, callsPerDay, ratePerSec, burst }: Limit): string {
  const parts = [
    ...(callsPerDay === undefined ? [] : [`${callsPerDay} calls per day`]),
    ...(ratePerSec === undefined
      ? []
      : [`${ratePerSec} per second, ${Math.max(1, burst ?? ratePerSec)} at once`]),
  ]
  return `${level}: ${parts.join(', ')}`
}
