// Judges recorded calls by the stages of a policy up to the one that gives the verdict, as a gateway does.
import { after, bind, type MaybePromise, policyTokens, resolveOptional, tokens, Unrecorded } from '@svc/core'
import type { SignedEnvelope } from '@svc/plugin-audit/log'
import { mayRunInEmergency } from '@svc/plugin-enforcement'
import type { BlockSource } from '../../blocks/stage.js'
import type { Policy } from '../../policy/config.js'
import { addressesOf } from '../../stdio/targets/config.js'
import { targetOf } from '../../upstream/target.js'
import { Judge, type PolicyJudgement } from '../judge/judge.js'
import { controlOf, type NamedRequest, recordedSubjectOf, requestNames } from '../judge/recorded-call.js'
import { type StagePlace, WHOLE_STAGE } from '../judge/stages.js'
import { unsent } from '../judge/unsent-call.js'
import { isEmergency } from './recorded-verdict.js'

export class PolicyJudge implements AsyncDisposable {
  readonly judging: Judge
  readonly #inPath: ReadonlyMap<string, boolean>

  private constructor(judging: Judge) {
    this.judging = judging
    this.#inPath = new Map(
      Object.entries(addressesOf(judging.policy.host.targets)).map(([server, address]) => [
        server,
        !targetOf(address).isMcp,
      ]),
    )
  }

  /** `blocks` are those of a gateway. Throws what a plugin's `create` throws. */
  static async start(policy: Policy, place: StagePlace, blocks?: BlockSource): Promise<PolicyJudge> {
    bind(policy.container, tokens.ToolAnnotations, {
      useValue: { among: () => unknownAnnotations, lists: () => () => undefined },
    })
    return new PolicyJudge(
      await Judge.start(policy, { place, blocks, runsUnstated: false, through: 'verdict' }),
    )
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.judging[Symbol.asyncDispose]()
  }

  get policy(): Policy {
    return this.judging.policy
  }

  /** The stages after the verdict. */
  get later(): ReadonlySet<string> {
    return this.judging.later
  }

  /** The called tool, in each reading; undefined if the record does not say. */
  requestOf(record: SignedEnvelope): NamedRequest | undefined {
    const subject = recordedSubjectOf(record)
    const isInPath = subject !== undefined && this.#inPath.get(subject.server) === true
    return subject && requestNames(subject, isInPath && subject.method === null)
  }

  judge(record: SignedEnvelope): MaybePromise<PolicyJudgement> {
    const subject = recordedSubjectOf(record)
    if (subject === undefined) return unknownCall
    const isInPath = this.#inPath.get(subject.server)
    if (isInPath === undefined) return unknownTarget
    const call = controlOf(record, subject, isInPath && subject.method === null)
    if (call === undefined) return unknownCall
    this.judging.clock.set({ time: call.receivedAt })
    return after(this.judging.judge(call), (judgement) => this.#inEmergency(record, judgement))
  }

  /** A call that ran in an emergency does so again if its caller still may. */
  #inEmergency(record: SignedEnvelope, judgement: PolicyJudgement): PolicyJudgement {
    if (judgement.decision !== 'escalate' || !isEmergency(record)) return judgement
    const { user, roles = [] } = record.principal ?? {}
    const rule = resolveOptional(this.policy.container, policyTokens.escalationRule)
    const may = mayRunInEmergency({ authenticated: true, user, roles }, rule)
    return may ? { ...judgement, decision: 'allow', reasons: [] } : judgement
  }
}

const nothing = { reasons: [], possible: [], undecided: [], limits: [], call: undefined, outcome: unsent }

const unknownTarget: PolicyJudgement = { ...nothing, decision: 'deny', reasons: ['TARGET_NOT_FOUND'] }

const unknownCall: PolicyJudgement = {
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
