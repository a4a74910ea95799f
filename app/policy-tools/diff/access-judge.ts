// Judges under a policy a call of which only the caller and the name are known.
import {
  after,
  type CallRequest,
  definePlugin,
  type Limit,
  limits,
  type MaybePromise,
  type Plugin,
  policyTokens,
  resolveOptional,
  type SectionEntry,
  type Stage,
} from '@svc/core'
import { sha256Hex } from '@svc/core/json'
import { z } from 'zod'
import type { Policy } from '../../policy/config.js'
import { type CallDecision, Judge, type PolicyJudgement } from '../judge/judge.js'
import { type NamedRequest, namedCall, namedRequest } from '../judge/recorded-call.js'
import { collectNotes, type StagePlace } from '../judge/stages.js'
import type { KnownCaller } from './known-calls.js'
import { ReadCaller, SharedVerdicts } from './shared-verdicts.js'

/** A stage decides so if something holds that is not known, such as a rule's condition on the arguments. */
export interface Condition {
  readonly stage: string
  /** The reason token, such as `rule:large`; `*` for whatever the stage decides. */
  readonly reason: string
  readonly decision: CallDecision
  readonly missing: readonly string[]
  /** Differs if the condition does. */
  readonly basis: string
  /** It is taken not to hold, as for the token of a known caller. */
  readonly isPresumedAbsent: boolean
}

export interface AccessVerdict {
  /** The decision if no condition holds; each can only make it stricter. */
  readonly decision: CallDecision
  readonly reasons: readonly string[]
  readonly conditions: readonly Condition[]
  readonly limits: readonly Limit[]
  /** The verdict if the client shows no forms, where that matters. */
  readonly withoutForms?: AccessVerdict
}

const denied = { decision: 'deny', conditions: [], limits: [] } as const
const unknownServer: AccessVerdict = { ...denied, reasons: ['TARGET_NOT_FOUND'] }
const noIssuer: AccessVerdict = { ...denied, reasons: ['UNAUTHENTICATED'] }

export class AccessJudge implements AsyncDisposable {
  readonly policy: Policy
  readonly #judge: Judge
  readonly #shared: SharedVerdicts<AccessVerdict>
  readonly #knowsUsers: boolean
  readonly #callers = new Map<KnownCaller, ReadCaller>()
  readonly #requests = new Map<NamedRequest, CallRequest>()
  readonly #bases = new Map<string, string>()

  private constructor(
    policy: Policy,
    judge: Judge,
    shared: SharedVerdicts<AccessVerdict>,
    knowsUsers: boolean,
  ) {
    this.policy = policy
    this.#judge = judge
    this.#shared = shared
    this.#knowsUsers = knowsUsers
  }

  /** Rejects with what a plugin's `create` throws. */
  static async startBoth(
    policies: readonly [Policy, Policy],
    place: StagePlace,
  ): Promise<[AccessJudge, AccessJudge]> {
    // If no policy validates tokens, the program says who calls; if one does, the other one refuses its callers.
    const some = policies.some(knowsUsers)
    const start = async (policy: Policy) => {
      const shared = new SharedVerdicts<AccessVerdict>()
      const judged = { ...policy, plugins: withStage(policy.plugins, shared.stage) }
      const judge = await Judge.start(judged, { place, runsUnstated: false, through: 'verdict' })
      return new AccessJudge(policy, judge, shared, !some || knowsUsers(policy))
    }
    const first = await start(policies[0])
    try {
      return [first, await start(policies[1])]
    } catch (error) {
      await first[Symbol.asyncDispose]()
      throw error
    }
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#judge[Symbol.asyncDispose]()
  }

  /** Without a wait if no stage waits. Calls are judged one after the other. */
  verdictOn(caller: KnownCaller, names: NamedRequest): MaybePromise<AccessVerdict> {
    const refused = this.#refusal(caller, names)
    if (refused !== undefined) return refused
    const read = this.#readCaller(caller)
    const call = namedCall(this.#requestOf(names), read)
    return this.#shared.of(call, read, () =>
      after(this.#judge.judge(call), (judgement) => {
        const verdict = this.#verdictOf(judgement)
        return mayConfirm(verdict) ? this.#withoutForms(verdict, read, names) : verdict
      }),
    )
  }

  /** Calls `add` for each entry of the policy that applies to the call. */
  entriesFor(
    caller: KnownCaller,
    names: NamedRequest,
    add: (entry: SectionEntry) => void,
  ): MaybePromise<void> {
    if (this.#refusal(caller, names) !== undefined) return
    const call = namedCall(this.#requestOf(names), caller)
    collectNotes(call, ({ entry }) => {
      if (entry !== undefined) add(entry)
    })
    return after(this.#judge.judge(call), () => undefined)
  }

  #refusal({ trusted }: KnownCaller, { server }: NamedRequest): AccessVerdict | undefined {
    if (!Object.hasOwn(this.policy.host.targets, server)) return unknownServer
    return trusted !== undefined && !this.#knowsUsers ? noIssuer : undefined
  }

  #verdictOf({ decision, reasons, possible, call }: PolicyJudgement): AccessVerdict {
    const conditions = possible.map((one) => ({ ...one, basis: one.basis || this.#basisOf(one.stage) }))
    return { decision, reasons, conditions, limits: call?.get(limits) ?? [] }
  }

  #withoutForms(
    verdict: AccessVerdict,
    caller: ReadCaller,
    names: NamedRequest,
  ): MaybePromise<AccessVerdict> {
    const call = namedCall(this.#requestOf(names), caller, false)
    return after(this.#judge.judge(call), (judgement) => ({
      ...verdict,
      withoutForms: this.#verdictOf(judgement),
    }))
  }

  /** A stage that is not run decides anything; what it decides changes with its section. */
  #basisOf(stage: string): string {
    let basis = this.#bases.get(stage)
    if (basis === undefined) {
      basis = sha256Hex(JSON.stringify(this.policy.sections.get(stage) ?? null))
      this.#bases.set(stage, basis)
    }
    return basis
  }

  #readCaller(caller: KnownCaller): ReadCaller {
    let read = this.#callers.get(caller)
    if (read === undefined) {
      read = new ReadCaller(caller)
      this.#callers.set(caller, read)
    }
    return read
  }

  #requestOf(names: NamedRequest): CallRequest {
    let request = this.#requests.get(names)
    if (request === undefined) {
      request = namedRequest(names)
      this.#requests.set(names, request)
    }
    return request
  }
}

/** Adds the stage behind the one that sets limits. */
function withStage(plugins: readonly Plugin[], stage: Stage): Plugin[] {
  const own = definePlugin({
    name: 'shared-verdicts',
    version: '1.0.0',
    core: '^1.0.0',
    schema: z.undefined(),
    phase: 'authorization',
    create: () => stage,
  })
  return plugins.flatMap((plugin) => (plugin.provides?.includes(limits) === true ? [plugin, own] : [plugin]))
}

function knowsUsers({ container }: Policy): boolean {
  return resolveOptional(container, policyTokens.knowsUsers) !== false
}

function mayConfirm({ decision, conditions }: AccessVerdict): boolean {
  return decision === 'confirm' || conditions.some((one) => one.decision === 'confirm')
}
