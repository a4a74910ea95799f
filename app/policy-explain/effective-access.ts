// What a policy lets a caller use, tool by tool, by the stages' explanations of a `tools/list` and of calls.
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
import { compose, type PlacedStage } from '@svc/core/pipeline'
import { listedReference } from '../mcp/references.js'
import { UNVERSIONED } from '../mcp/server-versions.js'
import type { Policy } from '../policy/config.js'
import { unsent, unsentCall } from '../policy/unsent-call.js'

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

  /** Throws what a plugin's `create` throws. */
  constructor(policy: Policy, context: PluginContext) {
    // Without validated tokens, callers are nobody in particular.
    this.#knowsUsers = resolveOptional(context.container, policyTokens.knowsUsers) !== false
    const placed = policy.plugins.map((plugin) => ({
      plugin,
      stage: explaining(plugin.name, plugin.create(policy.sections.get(plugin.name), context)),
    }))
    this.#all = placed.map(({ stage }) => stage)
    this.#granting = placed
      .filter(({ plugin: { phase } }) => phase === 'authorization')
      .map(({ stage }) => stage)
  }

  async judge(caller: NamedCaller, { server, tools }: NamedTools): Promise<ToolJudgement[]> {
    const who = this.#knowsUsers ? identityOf(caller) : undefined
    const listing = unsentCall(
      callRequest({
        kind: 'protocol',
        method: 'tools/list',
        server,
        name: 'POST',
        version: tools[0]?.version ?? UNVERSIONED,
        args: {},
        idempotencyKey: null,
      }),
    )
    if (who !== undefined) listing.call.set(identity, who)
    const outcome = await compose(this.#all, () => Promise.resolve(unsent))(listing)
    const refusedAll = outcome.kind === 'completed' ? undefined : outcome.code
    return Promise.all(
      tools.map(async ({ name: tool, version }): Promise<ToolJudgement> => {
        const reference = listedReference(server, 'tool', tool, version)
        if (reference === undefined) return { server, tool, refused: 'BAD_REQUEST', limits: [] }
        const denial = listing.call.denialOf(reference, 'tool')
        const isAllowed = listing.call.mayRequest(reference, 'tool')
        const refused = refusedAll ?? (isAllowed ? undefined : (denial?.reason ?? 'TOOL_NOT_ALLOWED'))
        const found = refused === undefined ? await this.#limitsOf(who, { server, tool, version }) : []
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
    await compose(this.#granting, () => Promise.resolve(unsent))(control)
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

function explaining(name: string, stage: PlacedStage['stage']): PlacedStage {
  const handle: PlacedStage['stage']['handle'] = (call, next) =>
    stage.explain === undefined ? next() : stage.explain(call, next, () => undefined)
  return { name, stage: { handle } }
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
