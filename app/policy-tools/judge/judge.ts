// The one judge of a policy: its stages decide about a call as in a gateway, for every tool that says what the policy does.
import {
  after,
  type Call,
  decisionOfRefusal,
  effectOnCall,
  externalDecision,
  type Finding,
  type Limit,
  limits,
  type MaybePromise,
  type Outcome,
  verdict,
} from '@svc/core'
import {
  type CallControl,
  compose,
  type Dispatch,
  Pipeline,
  type PlacedStage,
  type Run,
} from '@svc/core/pipeline'
import type { DependencyContainer } from 'tsyringe'
import type { Policy } from '../../policy/config.js'
import { VirtualClock } from './clock.js'
import { type JudgingStages, judgingStages, laterPhases, type StageOptions } from './stages.js'
import { unsent } from './unsent-call.js'

/** From the least strict on. */
export const decisions = ['allow', 'confirm', 'escalate', 'deny'] as const
export type CallDecision = (typeof decisions)[number]

export function stricter(a: CallDecision, b: CallDecision): boolean {
  return decisions.indexOf(a) > decisions.indexOf(b)
}

/** A finding that may apply, and the decision if it does. */
export interface Possibility {
  readonly stage: string
  readonly reason: string
  readonly decision: CallDecision
  readonly missing: readonly string[]
  readonly basis: string
  readonly isPresumedAbsent: boolean
}

export interface PolicyJudgement {
  /** The decision of the policy if none of the possible findings applies. */
  readonly decision: CallDecision
  readonly reasons: readonly string[]
  /** What may make the decision stricter; the decision is unknown if there is any. */
  readonly possible: readonly Possibility[]
  /** Every finding that may apply, whatever its effect. */
  readonly undecided: readonly Finding[]
  /** The limits of an allowed call. */
  readonly limits: readonly Limit[]
  readonly call: Call | undefined
  /** By what is known. */
  readonly outcome: Outcome
}

export interface JudgeOptions extends Omit<StageOptions, 'clock'> {
  /**
   * `verdict`: only the stages that decide run, without a wait if none of them waits. `end`: those after them too, so that
   * limits and keys of one judge count.
   */
  readonly through: 'verdict' | 'end'
}

export class Judge implements AsyncDisposable {
  readonly policy: Policy
  readonly clock = new VirtualClock()
  /** The stages up to the verdict, and those after it. */
  readonly deciding: ReadonlySet<string>
  readonly later: ReadonlySet<string>
  readonly #stages: JudgingStages
  readonly #pipeline: Pipeline
  readonly #run: Run

  private constructor(policy: Policy, { through, ...options }: JudgeOptions) {
    this.policy = policy
    this.#stages = judgingStages(policy, { ...options, clock: this.clock })
    const { placed } = this.#stages
    this.later = new Set(placed.filter(({ phase = '' }) => laterPhases.has(phase)).map(({ name }) => name))
    this.#pipeline = new Pipeline(placed, respond)
    const deciding = placed.filter(({ name }) => !this.later.has(name))
    this.deciding = new Set(deciding.map(({ name }) => name))
    const decide = compose(deciding, () => unsent)
    this.#run = through === 'end' ? (call) => this.#pipeline.run(call) : decide
  }

  /** Throws what a plugin's `create` throws. */
  static async start(policy: Policy, options: JudgeOptions): Promise<Judge> {
    const judge = new Judge(policy, options)
    await judge.#pipeline.start()
    return judge
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#pipeline.stop()
  }

  get container(): DependencyContainer {
    return this.#stages.container
  }

  /** The stages that are not run: what they decide is unknown. */
  get unasked(): readonly string[] {
    return this.#stages.unasked
  }

  /** The stages that count calls. */
  get metering(): readonly PlacedStage[] {
    return this.#stages.placed.filter(({ phase }) => phase === 'metering')
  }

  judge(call: CallControl): MaybePromise<PolicyJudgement> {
    // The stages find the request read, and run without waiting.
    return after(call.request(), () =>
      after(this.#run(call), (outcome) => {
        const isAnswered = call.get(externalDecision) !== undefined
        const passes = this.#stages.mayPass && !isAnswered && mayPass(call, outcome)
        return judgementOf(call, outcome, passes)
      }),
    )
  }
}

function judgementOf(call: CallControl, outcome: Outcome, passes: boolean): PolicyJudgement {
  const { possibleFindings: undecided } = call
  if (outcome.kind === 'completed' || passes) {
    const possible = undecided.length === 0 ? [] : possibilities(call, 'allow')
    const granted = call.get(limits) ?? []
    return { decision: 'allow', reasons: [], possible, undecided, limits: granted, call, outcome }
  }
  const rule = call.get(verdict)
  const decision: CallDecision = decisionOfRefusal(outcome.code)
  const found = call.findings.flatMap((finding) =>
    rule !== undefined && effectOnCall(finding, rule) === decision ? [finding.reason] : [],
  )
  const own = (outcome.kind === 'denied' ? outcome.denial?.reason : undefined) ?? outcome.code
  const reasons = found.length === 0 ? [own] : [...new Set(found)]
  // Findings that may apply beside these can only make the decision stricter.
  const possible = decision === 'deny' ? [] : possibilities(call, decision)
  return { decision, reasons, possible, undecided, limits: [], call, outcome }
}

/** A stage that is not run may allow what findings deny, save by a ruling. */
function mayPass(call: CallControl, outcome: Outcome): boolean {
  const rule = call.get(verdict)
  if (rule === undefined || outcome.kind !== 'denied') return false
  if (decisionOfRefusal(outcome.code) !== 'deny') return false
  return !call.findings.some((one) => one.ruling !== undefined && effectOnCall(one, rule) === 'deny')
}

/** The possible findings that would make the decision stricter. */
function possibilities(call: CallControl, least: CallDecision): Possibility[] {
  const rule = call.get(verdict)
  return call.possibleFindings.flatMap((finding) => {
    const { possible, stage, reason } = finding
    if (possible === undefined) return []
    const effect = rule === undefined ? 'deny' : effectOnCall(finding, rule)
    const ruled = effect === 'reported' || effect === 'would_deny' ? 'allow' : effect
    const decision = possible.isRefusal === true ? 'deny' : ruled
    if (!stricter(decision, least)) return []
    const { missing, basis, isPresumedAbsent = false } = possible
    return { stage, reason, decision, missing, basis, isPresumedAbsent }
  })
}

/** Takes the place of the server: the holds are committed as before a send, and nothing is sent. */
const respond: Dispatch = async (call): Promise<Outcome> => {
  const refused = await call.commitHolds()
  if (refused !== undefined) return refused
  call.markSent('yes')
  const headers = { 'content-type': 'application/json' }
  return { kind: 'completed', status: 200, headers, body: Buffer.from('{}') }
}
