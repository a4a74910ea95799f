// Judges recorded calls by the stages of a policy up to the one that gives the verdict, as a gateway does.
import {
  after,
  attempt,
  bind,
  type Call,
  decisionOfRefusal,
  effectOnCall,
  type Finding,
  isUnrecorded,
  type Limit,
  limits,
  type MaybePromise,
  mayRunInEmergency,
  type Outcome,
  type Plugin,
  policyTokens,
  resolveOptional,
  type Stage,
  tokens,
  Unrecorded,
  verdict,
} from '@svc/core'
import { sha256Hex } from '@svc/core/json'
import { type CallControl, compose, type InsertedStage, type PlacedStage, type Run } from '@svc/core/pipeline'
import type { SignedEnvelope } from '@svc/plugin-audit/log'
import { VirtualClock } from '../memory-pipeline/clock.js'
import { type TestPipeline, testPipeline } from '../memory-pipeline/test-pipeline.js'
import type { Policy } from '../policy/config.js'
import { unsent } from '../policy/unsent-call.js'
import { addressesOf } from '../stdio-targets/config.js'
import { targetOf } from '../upstream/target.js'
import { controlOf, type NamedRequest, recordedSubjectOf, requestNames } from './recorded-call.js'
import { type CallDecision, isEmergency, stricter } from './recorded-verdict.js'

/** A finding that may apply, and the decision if it does. */
export interface Possibility {
  readonly stage: string
  readonly reason: string
  readonly decision: CallDecision
  readonly missing: readonly string[]
  readonly basis: string
  readonly isPresumedAbsent: boolean
}

export interface StageJudgement {
  /** The decision of the policy if none of the possible findings applies. */
  readonly decision: CallDecision
  readonly reasons: readonly string[]
  readonly possible: readonly Possibility[]
  /** Every finding that may apply, whatever its effect. */
  readonly undecided: readonly Finding[]
  /** The limits of an allowed call. */
  readonly limits: readonly Limit[]
  readonly call: Call | undefined
}

/** A stage as a whole may decide anything. */
export const WHOLE_STAGE = '*'

const JUDGING: ReadonlySet<string> = new Set([
  'authentication',
  'authorization',
  'inspection',
  'evaluation',
  'decision',
])
const LATER: ReadonlySet<string> = new Set(['idempotency', 'metering', 'credential'])

interface Place {
  readonly baseDir: string
  readonly env: Readonly<Record<string, string | undefined>>
}

export class PolicyJudge implements AsyncDisposable {
  readonly policy: Policy
  readonly clock = new VirtualClock()
  readonly #testing: TestPipeline
  readonly #run: Run
  readonly #asksRuntime: boolean
  readonly #inPath: ReadonlyMap<string, boolean>
  /** The stages after the verdict. */
  readonly later: ReadonlySet<string>

  private constructor(policy: Policy, place: Place, inserted: InsertedStage | undefined) {
    this.policy = policy
    bind(policy.container, tokens.ToolAnnotations, { useValue: { among: () => unknownAnnotations } })
    this.#testing = testPipeline(policy, this.clock, place)
    this.#asksRuntime = resolveOptional(policy.container, policyTokens.asksRuntime) === true
    const stageOf = (plugin: Plugin, at: number): PlacedStage[] => {
      const { phase = 'inspection' } = plugin
      const placed = this.#testing.stages[at]
      if (!JUDGING.has(phase) || placed === undefined) return []
      if (phase === 'decision') return [{ name: plugin.name, stage: deciding(plugin, placed.stage) }]
      if (phase === 'evaluation' && !this.#asksRuntime) return [placed]
      const section = sha256Hex(JSON.stringify(policy.sections.get(plugin.name)) ?? '')
      const judges = plugin.bindInMemory !== undefined && phase !== 'evaluation'
      return [
        {
          name: plugin.name,
          stage: judges ? replayed(plugin, placed.stage, section) : undecided(plugin),
        },
      ]
    }
    const stages = policy.plugins.flatMap((plugin, at) => [
      ...stageOf(plugin, at),
      ...(inserted !== undefined && plugin.provides?.includes(inserted.within) === true ? [inserted] : []),
    ])
    this.#run = compose(stages, () => unsent)
    this.#inPath = new Map(
      Object.entries(addressesOf(policy.host.targets)).map(([server, address]) => [
        server,
        !targetOf(address).isMcp,
      ]),
    )
    this.later = new Set(policy.plugins.filter(({ phase }) => LATER.has(phase ?? '')).map(({ name }) => name))
  }

  /** The stages that count calls. */
  get metering(): readonly PlacedStage[] {
    return this.#testing.stages.filter((_, at) => this.policy.plugins[at]?.phase === 'metering')
  }

  /** `inserted` is a stage of the gateway. Throws what a plugin's `create` throws. */
  static async start(policy: Policy, place: Place, inserted?: InsertedStage): Promise<PolicyJudge> {
    const judge = new PolicyJudge(policy, place, inserted)
    await judge.#testing.judging.start()
    return judge
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#testing.judging.stop()
  }

  /** The called tool, in each reading; undefined if the record does not say. */
  requestOf(record: SignedEnvelope): NamedRequest | undefined {
    const subject = recordedSubjectOf(record)
    const isInPath = subject !== undefined && this.#inPath.get(subject.server) === true
    return subject && requestNames(subject, isInPath && subject.method === null)
  }

  judge(record: SignedEnvelope): MaybePromise<StageJudgement> {
    const subject = recordedSubjectOf(record)
    if (subject === undefined) return unknownCall
    const isInPath = this.#inPath.get(subject.server)
    if (isInPath === undefined) return unknownTarget
    const control = controlOf(record, subject, isInPath && subject.method === null)
    if (control === undefined) return unknownCall
    this.clock.set({ time: control.call.receivedAt })
    // The stages find the request read, and run without waiting.
    return after(control.request(), () =>
      after(this.#run(control), (outcome) =>
        this.#inEmergency(
          record,
          judgementOf(control, this.#asksRuntime && mayPass(control, outcome) ? unsent : outcome),
        ),
      ),
    )
  }

  /** A call that ran in an emergency does so again if its caller still may. */
  #inEmergency(record: SignedEnvelope, judgement: StageJudgement): StageJudgement {
    if (judgement.decision !== 'escalate' || !isEmergency(record)) return judgement
    const { user, roles = [] } = record.principal ?? {}
    const rule = resolveOptional(this.policy.container, policyTokens.escalationRule)
    const may = mayRunInEmergency({ authenticated: true, user, roles }, rule)
    return may ? { ...judgement, decision: 'allow', reasons: [] } : judgement
  }
}

const nothing = { reasons: [], possible: [], undecided: [], limits: [], call: undefined }

const unknownTarget: StageJudgement = { ...nothing, decision: 'deny', reasons: ['TARGET_NOT_FOUND'] }

const unknownCall: StageJudgement = {
  ...nothing,
  decision: 'allow',
  possible: [
    {
      stage: 'gateway',
      reason: WHOLE_STAGE,
      decision: 'deny',
      missing: ['the name of what was called'],
      basis: '',
      isPresumedAbsent: false,
    },
  ],
}

function unknownAnnotations(): never {
  throw new Unrecorded(["the server's annotations of the tool"])
}

function judgementOf(control: CallControl, outcome: Outcome): StageJudgement {
  const { call } = control
  const { possible: undecided } = control.judgement
  const rule = call.get(verdict)
  const effects = (found: readonly Finding[], wanted: string) =>
    rule === undefined ? [] : found.filter((finding) => effectOnCall(finding, rule) === wanted)
  if (outcome.kind !== 'completed') {
    const decision: CallDecision = decisionOfRefusal(outcome.code)
    const found = effects(call.findings, decision).map(({ reason }) => reason)
    const own = (outcome.kind === 'denied' ? outcome.denial?.reason : undefined) ?? outcome.code
    const reasons = found.length === 0 ? [own] : [...new Set(found)]
    // Findings that may apply beside these can only make the decision stricter.
    const possible = decision === 'deny' ? [] : possibilities(control, decision)
    return { decision, reasons, possible, undecided, limits: [], call }
  }
  const possible = undecided.length === 0 ? [] : possibilities(control, 'allow')
  return { decision: 'allow', reasons: [], possible, undecided, limits: call.get(limits) ?? [], call }
}

/** A runtime may allow what findings deny, save by a ruling. */
function mayPass({ call }: CallControl, outcome: Outcome): boolean {
  const rule = call.get(verdict)
  if (rule === undefined || outcome.kind !== 'denied') return false
  if (decisionOfRefusal(outcome.code) !== 'deny') return false
  return !call.findings.some((one) => one.ruling !== undefined && effectOnCall(one, rule) === 'deny')
}

/** The possible findings that would make the decision stricter. */
function possibilities({ call, judgement }: CallControl, least: CallDecision): Possibility[] {
  const rule = call.get(verdict)
  return judgement.possible.flatMap((finding) => {
    const { possible, stage, reason } = finding
    if (possible === undefined) return []
    const effect = rule === undefined ? 'deny' : effectOnCall(finding, rule)
    const decision = effect === 'reported' || effect === 'would_deny' ? 'allow' : effect
    if (!stricter(decision, least)) return []
    const { missing, basis, isPresumedAbsent = false } = possible
    return { stage, reason, decision, missing, basis, isPresumedAbsent }
  })
}

/** The stage, which is passed if it reads what was not recorded: then it may decide anything. */
function replayed(plugin: Plugin, stage: Stage, section: string): Stage {
  return {
    handle(call, next) {
      let passed: MaybePromise<Outcome> | undefined
      const pass = () => {
        passed ??= next()
        return passed
      }
      return attempt(
        () => stage.handle(call, pass),
        (error) => {
          if (!isUnrecorded(error)) throw error
          call.addFinding(anyDecision(plugin, error.facts, section))
          return pass()
        },
      )
    },
  }
}

/** A stage that cannot judge here. */
function undecided(plugin: Plugin): Stage {
  return {
    handle(call, next) {
      call.addFinding(anyDecision(plugin, [`what stage ${plugin.name} decides`], ''))
      return next()
    },
  }
}

/** The verdict, without the store of approvals. */
function deciding(plugin: Plugin, stage: Stage): Stage {
  return {
    handle: (call, next) =>
      attempt(
        () => stage.explain?.(call, next, quiet) ?? stage.handle(call, next),
        (error) => {
          if (!isUnrecorded(error)) throw error
          call.addFinding(anyDecision(plugin, error.facts, ''))
          return unsent
        },
      ),
  }
}

function anyDecision({ name }: Plugin, missing: readonly string[], basis: string): Finding {
  return { reason: WHOLE_STAGE, stage: name, ruling: 'deny', possible: { missing, basis } }
}

const quiet = () => undefined
