// The tools that a policy lets a caller use, by the stages' explanations of a `tools/list` and of calls.
import {
  callRequest,
  type Identity,
  identity,
  type Limit,
  limits,
  type NamedCaller,
  type PluginContext,
  policyTokens,
  resolveOptional,
} from '@svc/core'
import type { InsertedStage, PlacedStage } from '@svc/core/pipeline'
import { listedReference } from '../mcp/references.js'
import { UNVERSIONED } from '../mcp/server-versions.js'
import type { Policy } from '../policy/config.js'
import { unsentCall } from '../policy/unsent-call.js'
import { explainedStages, judgeUnsent, toolListing } from './explained-stages.js'

/** The tools of one server. */
export interface NamedTools {
  readonly server: string
  readonly tools: readonly { readonly name: string; readonly version: string }[]
}

export interface ToolJudgement {
  readonly server: string
  readonly tool: string
  /** Reason token of the refusal; undefined if calls are allowed, as far as their arguments do not decide. */
  readonly refused: string | undefined
  /** `plan: 100 calls per day`. */
  readonly limits: readonly string[]
}

export class EffectiveAccess {
  readonly #all: readonly PlacedStage[]
  readonly #granting: readonly PlacedStage[]
  readonly #knowsUsers: boolean

  /** `inserted` is a stage of the gateway. Throws what a plugin's `create` throws. */
  constructor(policy: Policy, context: PluginContext, inserted?: InsertedStage) {
    // Without validated tokens, callers are nobody in particular.
    this.#knowsUsers = resolveOptional(context.container, policyTokens.knowsUsers) !== false
    this.#all = explainedStages(policy, policy.plugins, context, inserted)
    const granting = new Set(
      policy.plugins.filter(({ phase }) => phase === 'authorization').map(({ name }) => name),
    )
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
        if (reference === undefined) return { server, tool, refused: 'BAD_REQUEST', limits: [] }
        const denial = listing.call.denialOf(reference, 'tool')
        const isAllowed = listing.call.mayRequest(reference, 'tool')
        const refused = refusedAll ?? (isAllowed ? undefined : (denial?.reason ?? 'TOOL_NOT_ALLOWED'))
        const found =
          refused === undefined && hasLimits ? await this.#limitsOf(who, { server, tool, version }) : []
        return { server, tool, refused, limits: found }
      }),
    )
  }

  async #limitsOf(
    who: Identity | undefined,
    { server, tool, version }: { readonly server: string; readonly tool: string; readonly version: string },
  ): Promise<string[]> {
    const control = unsentCall(
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
    if (who !== undefined) control.call.set(identity, who)
    await judgeUnsent(this.#granting)(control)
    return (control.call.get(limits) ?? []).map(describe)
  }
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
