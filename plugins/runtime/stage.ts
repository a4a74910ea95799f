// Has each call evaluated, passes the decision on to the enforcement stage, and fulfils its obligations.

import {
  type Call,
  type DecisionEvaluator,
  type DoctorCheck,
  type ExternalDecision,
  externalDecision,
  type Failed,
  failed,
  judgedOnly,
  type MaybePromise,
  type Next,
  type Outcome,
  responseChange,
  type Stage,
  type StageHealth,
  Unrecorded,
} from '@svc/core'
import { defined } from '@svc/core/json'
import { type ResponseRewriter, rewriteOutcome } from '@svc/core/response'
import { EvaluationError } from './evaluation/error.js'
import { type GuardedEvaluator, principalOf } from './evaluation/guarded-evaluator.js'
import type { Decision } from './evaluation/obligations.js'
import { evaluationRequest, type RequestOptions } from './evaluation/request.js'
import { redactError, redactResult } from './redact/mcp-result.js'
import { describeOutputRule, type OutputRule, redactJson, redactText, rulesFor } from './redact/rule.js'

export interface EvaluationSource {
  /** The evaluator while the stage runs. */
  running(): DecisionEvaluator | undefined
  readonly requestOptions: RequestOptions
  readonly failureMode: 'local' | 'allow' | 'deny'
  /** Acquires resources that survive a reload. Throws for a configuration that can never work. */
  open(): OpenSource
}

export interface OpenSource {
  readonly evaluator: GuardedEvaluator
  release(): Promise<void>
}

const OUTPUT_REDACTED = 'output_redacted'
const RUNTIME_UNAVAILABLE = 'runtime_unavailable'
const UNAVAILABLE = 'the runtime is unavailable'

/** Findings of this stage that are only for the record and never deny. */
const notes = [OUTPUT_REDACTED, RUNTIME_UNAVAILABLE]

const failureEffect = {
  local: 'the enforcement section decides',
  allow: 'calls pass',
  deny: 'calls are refused with RUNTIME_UNAVAILABLE',
} as const

export class RuntimeStage implements Stage {
  readonly effects: 'none' | 'network'
  readonly doctor: () => Promise<readonly DoctorCheck[]>
  #source: EvaluationSource | undefined
  #open: OpenSource | undefined

  /** Without a source, the policy's own rule decides. */
  constructor(source: EvaluationSource | undefined, doctor: () => Promise<readonly DoctorCheck[]>) {
    this.#source = source
    this.effects = source === undefined ? 'none' : 'network'
    this.doctor = doctor
  }

  async start(): Promise<void> {
    this.#open ??= this.#source?.open()
  }

  async stop(): Promise<void> {
    const open = this.#open
    this.#open = undefined
    await open?.release()
  }

  health(): StageHealth | undefined {
    const breaker = this.#open?.evaluator.breaker
    if (this.#source === undefined || breaker === undefined || !breaker.isOpen) return undefined
    const effect = failureEffect[this.#source.failureMode]
    const reason = `the runtime cannot be reached or fails for several callers; ${effect}`
    return { state: 'warning', reason }
  }

  handle(call: Call, next: Next): MaybePromise<Outcome> {
    // Lists and other protocol requests have no single subject; each name in them is evaluated when it is called.
    if (this.#source === undefined) {
      if (call.isNoted) call.note('mode local: the enforcement section decides')
      return next()
    }
    if (call.parsedRequest?.kind === 'protocol') return next()
    if (call.get(judgedOnly) !== undefined) throw new Unrecorded(['what the runtime decides'])
    return this.#evaluate(call, next, this.#source)
  }

  async #evaluate(call: Call, next: Next, source: EvaluationSource): Promise<Outcome> {
    const request = call.parsedRequest ?? (await call.request())
    if (request.kind === 'protocol') return next()
    if (this.#open === undefined) throw new Error('the runtime stage has not started')
    const { evaluator } = this.#open
    // Findings added during the evaluation, such as an exceeded duration, are not covered by its decision.
    const considered = call.findings.map(({ reason }) => reason)
    let decision: Decision
    const evaluated = evaluationRequest(call, request, source.requestOptions)
    try {
      decision = await evaluator.evaluate(call, evaluated)
    } catch (error) {
      if (!(error instanceof EvaluationError)) throw error
      const cooldownLeftMs = evaluator.breaker.cooldownLeftMs(principalOf(call, evaluated))
      return applyFailureMode(call, source, { considered, error, cooldownLeftMs }) ?? next()
    }
    setJudgement(call, decision, considered)
    const { redactions } = decision.obligations
    // In observe mode the decision and its obligations are only recorded.
    if (redactions.length === 0 || source.requestOptions.rule.mode === 'observe') return next()
    call.set(responseChange, true)
    return rewriteOutcome(call, request, await next(), rewriterOf(redactions))
  }
}

function setJudgement(
  call: Call,
  { evaluation, obligations }: Decision,
  considered: readonly string[],
): void {
  const { action, reason, reasons } = evaluation
  const needsApproval = action === 'allow' && obligations.needsApproval
  if (action === 'allow' || action === 'escalate') addRedactionFinding(call, obligations.redactions)
  call.set(externalDecision, {
    action: needsApproval ? 'escalate' : action,
    ...defined({ reason, reasons }),
    considered,
    notes,
  })
}

/** Explains in the record why its digest differs from that of the upstream's response. */
function addRedactionFinding(call: Call, redactions: readonly OutputRule[]): void {
  if (redactions.length === 0) return
  const detail = `the runtime requires redaction of ${redactions.map(describeOutputRule).join(', then ')}`
  call.addFinding({ reason: OUTPUT_REDACTED, stage: 'runtime', level: 'gateway', detail })
}

interface Failure {
  readonly considered: readonly string[]
  readonly error: EvaluationError
  readonly cooldownLeftMs: number
}

/** The refusal that the failure mode requires; undefined if the call continues. */
function applyFailureMode(
  call: Call,
  { failureMode, requestOptions }: EvaluationSource,
  { considered, error, cooldownLeftMs }: Failure,
): Failed | undefined {
  const finding = { reason: RUNTIME_UNAVAILABLE, stage: 'runtime', level: 'gateway', detail: UNAVAILABLE }
  call.addFinding(finding)
  if (failureMode === 'deny' && requestOptions.rule.mode !== 'observe') {
    const seconds = Math.max(1, Math.ceil(cooldownLeftMs / 1000))
    return failed('RUNTIME_UNAVAILABLE', 'The runtime is unavailable, so the call was not sent.', {
      cause: error,
      headers: { 'retry-after': String(seconds) },
    })
  }
  call.set(externalDecision, { ...fallbackDecision[failureMode](considered), notes })
  return undefined
}

const fallbackDecision: Readonly<
  Record<EvaluationSource['failureMode'], (considered: readonly string[]) => ExternalDecision>
> = {
  allow: (considered) => ({ action: 'allow', considered }),
  deny: (considered) => ({ action: 'deny', reason: UNAVAILABLE, considered }),
  // The decision that leaves every finding to the policy's own rule.
  local: () => ({ action: 'allow', considered: [] }),
}

/**
 * The rules of a decision as changes of a response. A match of a pattern may span several events of a plain stream; on an
 * MCP stream progress, log messages and requests of the server may contain what is redacted in the response: both are removed.
 */
function rewriterOf(rules: readonly OutputRule[]): ResponseRewriter {
  const apply = <T>(size: number, value: T, redact: (value: T, rule: OutputRule) => T): T =>
    rulesFor(rules, size).reduce((result, rule) => redact(result, rule), value)
  return {
    result: (result, method, size) => apply(size, result, (value, rule) => redactResult(value, method, rule)),
    error: (error, size) => apply<unknown>(size, error, redactError),
    message: () => undefined,
    json: (value, size) => apply(size, value, redactJson),
    text: (text) => apply(text.length, text, redactText),
    unreadable: rules[0]?.replacement ?? '',
    spansEvents: !rules.every(({ isAll, detectors }) => !isAll && detectors.length === 0),
  }
}
