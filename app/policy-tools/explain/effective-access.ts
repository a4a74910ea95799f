// The tools that a policy lets a caller use, by the judge's decisions about a `tools/list` and about calls.
import {
  type Call,
  callRequest,
  type DescribedRule,
  type Identity,
  type Limit,
  limits,
  type NamedCaller,
  policyTokens,
  type RequestKind,
  resolveOptional,
  services,
  trustedCaller,
  verdict,
} from '@svc/core'
import { compilePatternSet } from '@svc/core/match'
import type { CallControl } from '@svc/core/pipeline'
import { unlistedReason } from '@svc/plugin-enforcement'
import type { BlockSource } from '../../blocks/stage.js'
import { listedReference } from '../../mcp/references.js'
import { UNVERSIONED } from '../../mcp/server-versions.js'
import type { Policy } from '../../policy/config.js'
import { Judge, type PolicyJudgement } from '../judge/judge.js'
import type { StagePlace } from '../judge/stages.js'
import { EveryScope, nodeAgent, toolListing } from '../judge/tool-listing.js'
import { unsentCall } from '../judge/unsent-call.js'

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

export class EffectiveAccess implements AsyncDisposable {
  readonly #judge: Judge
  readonly #knowsUsers: boolean
  readonly #conditional: readonly ConditionalRule[]

  private constructor(judge: Judge) {
    this.#judge = judge
    // Without validated tokens, callers are nobody in particular.
    this.#knowsUsers = resolveOptional(judge.container, policyTokens.knowsUsers) !== false
    this.#conditional = conditionalRules(resolveOptional(judge.container, services.describedRules) ?? [])
  }

  /** `blocks` are those of a gateway. Throws what a plugin's `create` throws. */
  static async open(policy: Policy, place: StagePlace, blocks?: BlockSource): Promise<EffectiveAccess> {
    // A page view asks about many calls, so no code runs for it that may contact others.
    const options = { place, blocks, runsUnstated: false, through: 'verdict' } as const
    return new EffectiveAccess(await Judge.start(policy, options))
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#judge[Symbol.asyncDispose]()
  }

  async judge(
    caller: NamedCaller,
    { server, tools }: NamedTools,
    hasLimits = true,
  ): Promise<ToolJudgement[]> {
    const who = this.#knowsUsers ? callerIdentity(caller) : undefined
    const listing = toolListing(who, server, tools[0]?.version ?? UNVERSIONED)
    const { outcome, reasons } = await this.#judge.judge(listing)
    const refusedAll = outcome.kind === 'completed' ? undefined : reasons[0]
    return Promise.all(
      tools.map(async ({ name: tool, version }): Promise<ToolJudgement> => {
        const reference = listedReference(server, 'tool', tool, version)
        if (reference === undefined) return denial(server, tool, 'BAD_REQUEST')
        const refused =
          refusedAll ??
          (listing.mayRequest(reference, 'tool')
            ? undefined
            : (listing.denialOf(reference, 'tool')?.reason ?? 'TOOL_NOT_ALLOWED'))
        if (refused !== undefined) return denial(server, tool, refused)
        const call = callOf({ server, tool, version }, who)
        const judgement = await this.#judge.judge(call)
        if (isOfUnlisted(judgement)) return denial(server, tool, unlistedReason)
        const judged = listing.mayUse(reference, 'tool')
          ? this.#verdictOf(judgement, call, reference)
          : { verdict: 'approval' as const, because: [] }
        const found = hasLimits ? (call.get(limits) ?? []).map(describe) : []
        return { server, tool, ...judged, refused: undefined, limits: found }
      }),
    )
  }

  /** Of a tool that no list or rule denies, whatever its arguments. */
  #verdictOf(
    { decision, outcome, possible, reasons }: PolicyJudgement,
    call: Call,
    reference: string,
  ): Pick<ToolJudgement, 'verdict' | 'because'> {
    // In observe mode no rule changes what happens to a call.
    const isObserved = call.get(verdict)?.mode === 'observe'
    const conditions = isObserved ? [] : this.#conditional.filter(({ matches }) => matches(reference, 'tool'))
    if (conditions.length > 0) return { verdict: 'depends', because: conditions.map(({ text }) => text) }
    const missing = [...new Set(possible.flatMap((one) => one.missing))]
    if (missing.length > 0) return { verdict: 'unknown', because: missing }
    if (decision === 'escalate' || decision === 'confirm') return { verdict: 'approval', because: [] }
    return outcome.kind === 'completed'
      ? { verdict: 'allow', because: [] }
      : { verdict: 'depends', because: reasons }
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

/** Whether nobody would be asked, because the server does not list the tool. */
function isOfUnlisted({ outcome }: PolicyJudgement): boolean {
  return outcome.kind === 'denied' && outcome.denial?.reason === unlistedReason
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
function callOf({ server, tool, version }: CalledTool, who: Identity | undefined): CallControl {
  const call = unsentCall(
    callRequest({
      kind: 'tool',
      method: null,
      server,
      name: tool,
      version,
      args: {},
      idempotencyKey: null,
    }),
    { agent: nodeAgent(who) },
  )
  if (who !== undefined) call.set(trustedCaller, { identity: who, scopes: new EveryScope() })
  return call
}

/** The identity of a caller of whom the policy has one name. */
export function callerIdentity({ tenant, kind, name }: NamedCaller): Identity {
  const base = { tenant, authenticated: true, roles: kind === 'role' ? [name] : [] }
  switch (kind) {
    case 'user':
      return { ...base, user: name }
    case 'user_id':
      return { ...base, user: name, userId: name }
    case 'agent':
      return { ...base, clientId: name }
    case 'node':
      return { ...base, nodeId: name }
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
