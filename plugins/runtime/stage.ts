// Has calls judged by a runtime and leaves its verdict for enforcement; what the runtime obliges to is done here.
import {
  type Call,
  type CallRequest,
  type Failed,
  failed,
  type Judgement,
  judgement,
  type MaybePromise,
  type Next,
  type Outcome,
  type Stage,
} from '@svc/core'
import { EvaluationFault } from './fault.js'
import { type QuestionRule, questionOf } from './question.js'
import { redactOutcome } from './redact/outcome.js'
import { type OutputRule, ruleInWords } from './redact/rule.js'
import type { Evaluated, Runtime } from './runtime.js'

export interface Judge {
  /** Who is asked, in words. */
  readonly about: string
  readonly question: QuestionRule
  readonly failureMode: 'local' | 'allow' | 'deny'
  /** Why nobody could ever be asked, beyond what the schema knows. */
  fault(): string | undefined
  /** Opens what outlives a reload. */
  open(): OpenJudge
}

export interface OpenJudge {
  readonly runtime: Runtime
  release(): Promise<void>
}

const OUTPUT_REDACTED = 'output_redacted'
const RUNTIME_UNAVAILABLE = 'runtime_unavailable'

/** What this stage reports that is nothing against a call. */
const notes = [OUTPUT_REDACTED, RUNTIME_UNAVAILABLE]

const whileFailing = {
  local: 'the enforcement section judges',
  allow: 'calls pass',
  deny: 'calls are answered RUNTIME_UNAVAILABLE',
} as const

export class RuntimeStage implements Stage {
  #judge: Judge | undefined
  #open: OpenJudge | undefined

  /** Without a judge, the policy's own rule stays in force. */
  constructor(judge: Judge | undefined) {
    this.#judge = judge
  }

  async start(): Promise<void> {
    const fault = this.#judge?.fault()
    if (fault !== undefined) throw new Error(fault)
    this.#open ??= this.#judge?.open()
  }

  async stop(): Promise<void> {
    const open = this.#open
    this.#open = undefined
    await open?.release()
  }

  warning(): string | undefined {
    const breaker = this.#open?.runtime.breaker
    if (this.#judge === undefined || breaker === undefined || !breaker.isOpen) return undefined
    return `the runtime failed ${breaker.failures} times in a row; ${whileFailing[this.#judge.failureMode]}`
  }

  handle(call: Call, next: Next): MaybePromise<Outcome> {
    return this.#judge === undefined ? next() : this.#evaluate(call, next, this.#judge)
  }

  async explain(call: Call, next: Next, say: (line: string) => void): Promise<Outcome> {
    const judge = this.#judge
    if (judge === undefined) {
      say('mode local: the enforcement section judges')
      return next()
    }
    const { kind } = await call.request()
    if (kind === 'protocol') say('only tools, prompts and resources are evaluated')
    else {
      say(`would ask ${judge.about}; while that fails, ${whileFailing[judge.failureMode]}`)
      say('nobody is asked for an explanation: what follows is what the policy itself decides')
    }
    return next()
  }

  async #evaluate(call: Call, next: Next, judge: Judge): Promise<Outcome> {
    const request = await call.request()
    // Lists and the rest of the protocol have no one subject; what they name is judged when it is called.
    if (request.kind === 'protocol') return next()
    if (this.#open === undefined) throw new Error('the runtime stage has not started')
    // Findings that come while the runtime decides, such as an exceeded duration, are not considered.
    const considered = call.findings.map(({ reason }) => reason)
    const evaluated = await evaluation(call, request, judge.question, this.#open.runtime)
    if (evaluated instanceof EvaluationFault) {
      return unavailable(call, judge, { considered, fault: evaluated }, this.#open.runtime) ?? next()
    }
    leaveVerdict(call, evaluated, considered)
    const { redactions } = evaluated.obligations
    const outcome = await next()
    // In observe mode a verdict is only recorded, and what it obliges to with it.
    if (redactions.length === 0 || judge.question.rule.mode === 'observe') return outcome
    return redactOutcome(call, request, outcome, redactions)
  }
}

async function evaluation(
  call: Call,
  request: CallRequest,
  about: QuestionRule,
  runtime: Runtime,
): Promise<Evaluated | EvaluationFault> {
  try {
    return await runtime.evaluate(call, questionOf(call, request, about))
  } catch (fault) {
    if (fault instanceof EvaluationFault) return fault
    throw fault
  }
}

function leaveVerdict(
  call: Call,
  { evaluation, obligations }: Evaluated,
  considered: readonly string[],
): void {
  const { action, reason, reasons } = evaluation
  const isApprovalDue = action === 'allow' && obligations.needsApproval
  if (action === 'allow' || action === 'escalate') noteRedactions(call, obligations.redactions)
  call.set(judgement, {
    action: isApprovalDue ? 'escalate' : action,
    ...(reason === undefined ? {} : { reason }),
    ...(reasons === undefined ? {} : { reasons }),
    considered,
    notes,
  })
}

/** So that the record tells why its digest is not that of what the upstream answered. */
function noteRedactions(call: Call, redactions: readonly OutputRule[]): void {
  if (redactions.length === 0) return
  const detail = `the runtime obliges to redact ${redactions.map(ruleInWords).join(', then ')}`
  call.addFinding({ reason: OUTPUT_REDACTED, stage: 'runtime', level: 'gateway', detail })
}

/** The refusal that the failure mode asks for; undefined where the call goes on. */
function unavailable(
  call: Call,
  { failureMode, question }: Judge,
  { considered, fault }: { readonly considered: readonly string[]; readonly fault: EvaluationFault },
  { breaker }: Runtime,
): Failed | undefined {
  if (failureMode === 'local') return undefined
  const isObserved = question.rule.mode === 'observe'
  if (failureMode === 'deny' && !isObserved) {
    const seconds = Math.max(1, Math.ceil(breaker.restsForMs / 1000))
    return failed('RUNTIME_UNAVAILABLE', 'The runtime could not be asked, so the call was not sent.', {
      cause: fault,
      headers: { 'retry-after': String(seconds) },
    })
  }
  call.addFinding({
    reason: RUNTIME_UNAVAILABLE,
    stage: 'runtime',
    level: 'gateway',
    detail: 'the runtime could not be asked',
  })
  const verdict: Pick<Judgement, 'action' | 'reason'> =
    failureMode === 'allow'
      ? { action: 'allow' }
      : { action: 'deny', reason: 'the runtime could not be asked' }
  call.set(judgement, { ...verdict, considered, notes })
  return undefined
}
