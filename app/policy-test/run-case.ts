// Runs the calls of one case through the stages of the policy, one after the other.
import {
  type Call,
  callRequest,
  decisionOfRefusal,
  idempotency,
  type Outcome,
  type Plugin,
  resolveOptional,
  type SectionEntry,
  services,
} from '@svc/core'
import type { CallControl } from '@svc/core/pipeline'
import { agentOf } from '../http/call-headers.js'
import { trustCaller } from '../in-process/tool-call.js'
import { type At, VirtualClock } from '../memory-pipeline/clock.js'
import { type TestPipeline, testPipeline } from '../memory-pipeline/test-pipeline.js'
import type { Policy } from '../policy/config.js'
import { unsentCall } from '../policy/unsent-call.js'
import { addressesOf } from '../stdio-targets/config.js'
import { targetOf } from '../upstream/target.js'
import { REPLAY, type TestCall, type TestCase } from './test-file.js'

/** `error`: the gateway failed, so the policy decided nothing. */
export type TestDecision = 'allow' | 'deny' | 'confirm' | 'escalate' | 'error'

export interface Judged {
  readonly decision: TestDecision
  /** Every name of the reason: the token that decided, and the error code. */
  readonly reasons: readonly string[]
  readonly message: string
}

export interface ExplanationLine {
  readonly section: string
  readonly text: string
  /** The name of the rule with which the text begins. */
  readonly rule?: string
}

/** A call whose decision is not the expected one. */
interface Difference {
  readonly call: TestCall
  /** Counts from 1. */
  readonly number: number
  readonly judged: Judged
  /** The explanations of the stages about the call. */
  readonly explanation: readonly ExplanationLine[]
}

export interface CaseResult {
  readonly test: TestCase
  /** The decision on the last call that ran. */
  readonly last: Judged
  /** Undefined if the case passed; the calls after it did not run. */
  readonly difference: Difference | undefined
}

export interface CaseRun {
  readonly policy: Policy
  readonly baseDir: string
  readonly env: Readonly<Record<string, string | undefined>>
  /** Called with each entry of the policy that applied to a call. */
  applied(entry: SectionEntry): void
}

export async function runCase(test: TestCase, run: CaseRun): Promise<CaseResult> {
  await using runner = await CaseRunner.start(run, test.at)
  return await runner.run(test)
}

/** The stages of a policy with unused limits and keys. */
export class CaseRunner implements AsyncDisposable {
  readonly #pipeline: TestPipeline
  readonly #clock: VirtualClock
  readonly #run: CaseRun

  private constructor(run: CaseRun, at: At | undefined) {
    this.#clock = new VirtualClock()
    this.#clock.set(at)
    this.#run = run
    this.#pipeline = testPipeline(run.policy, this.#clock, run)
  }

  static async start(run: CaseRun, at?: At): Promise<CaseRunner> {
    const runner = new CaseRunner(run, at)
    await runner.#pipeline.judging.start()
    return runner
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#pipeline.judging.stop()
  }

  async run(test: TestCase): Promise<CaseResult> {
    let last: Judged = { decision: 'error', reasons: [], message: 'no call ran' }
    for (const [index, call] of test.calls.entries()) {
      this.#clock.set(call.at)
      for (let time = 0; time < call.times; time++) {
        last = await this.judge(call)
        if (isExpected(call, last)) continue
        const explanation = await this.#explain(call)
        return { test, last, difference: { call, number: index + 1, judged: last, explanation } }
      }
    }
    return { test, last, difference: undefined }
  }

  async judge(tested: TestCall): Promise<Judged> {
    const control = await this.#controlOf(tested)
    const outcome = await this.#pipeline.judging.run(control)
    for (const entry of this.#appliedTo(control.call)) this.#run.applied(entry)
    return judgedBy(outcome, control.call)
  }

  /** The explanations of stages that report findings; of rules, only of those that apply to the call. */
  async #explain(tested: TestCall): Promise<ExplanationLine[]> {
    const lines: ExplanationLine[] = []
    const say = ({ name, phase = 'inspection' }: Plugin, text: string) => {
      if (!explaining.has(phase)) return
      const rule = this.#rules.find((one) => text.startsWith(`${one.name}: `))
      lines.push({ section: name, text, ...(rule === undefined ? {} : { rule: rule.name }) })
    }
    const control = await this.#controlOf(tested)
    await this.#pipeline.explaining(say).run(control)
    const applied = new Set(this.#appliedTo(control.call).map(({ name }) => name))
    return lines.filter(({ rule }) => rule === undefined || applied.has(rule))
  }

  get #rules(): SectionEntry[] {
    return this.#pipeline.stages
      .flatMap(({ stage }) => stage.entries?.all ?? [])
      .filter(({ kind }) => kind === 'rule')
  }

  #appliedTo(call: Call): SectionEntry[] {
    return this.#pipeline.stages.flatMap(({ stage }) => stage.entries?.appliedTo(call) ?? [])
  }

  async #controlOf({ subject, args, idempotencyKey, headers, caller }: TestCall): Promise<CallControl> {
    const { policy } = this.#run
    const address = addressesOf(policy.host.targets)[subject.server]
    const isMcp = subject.kind !== 'tool' || (address !== undefined && targetOf(address).isMcp)
    const request = callRequest({
      ...subject,
      method: isMcp ? methods[subject.kind] : null,
      args: subject.kind === 'resource' ? { uri: subject.name } : args,
      idempotencyKey,
      isInPath: !isMcp,
    })
    const token = caller !== undefined && 'claims' in caller ? await this.#tokenOf(caller) : undefined
    const sent = {
      ...headers,
      ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
      ...(idempotencyKey === null ? {} : { 'idempotency-key': idempotencyKey }),
    }
    const { agent } = agentOf(sent)
    const control = unsentCall(request, { headers: sent, agent, receivedAt: this.#clock.now() })
    if (caller !== undefined && 'identity' in caller) trustCaller(control.call, caller.identity)
    return control
  }

  /** A policy that validates no tokens refuses every token. */
  async #tokenOf({
    claims,
    isWhole,
  }: {
    claims: Parameters<MakeToken>[0]
    isWhole: boolean
  }): Promise<string> {
    const make = resolveOptional(this.#pipeline.container, services.testToken)
    return make === undefined ? 'e30.e30.e30' : make(claims, isWhole)
  }
}

type MakeToken = NonNullable<(typeof services.testToken)['type']>

const methods = { tool: 'tools/call', prompt: 'prompts/get', resource: 'resources/read' } as const

const explaining: ReadonlySet<string> = new Set([
  'authentication',
  'authorization',
  'inspection',
  'evaluation',
])

function isExpected({ expect, reason }: TestCall, { decision, reasons }: Judged): boolean {
  return decision === expect && (reason === undefined || reasons.includes(reason))
}

function judgedBy(outcome: Outcome, call: Call): Judged {
  if (outcome.kind === 'completed') {
    const isReplay = call.get(idempotency) === REPLAY
    const found = call.findings.map(({ reason }) => reason)
    return { decision: 'allow', reasons: isReplay ? [REPLAY, ...found] : found, message: '' }
  }
  const { code, message } = outcome
  if (outcome.kind === 'failed') return { decision: 'error', reasons: [code], message }
  const decided = outcome.denial?.reason
  const reasons = [...(decided === undefined ? [] : [decided]), code]
  const decision = decisionOfRefusal(code)
  if (decision === 'deny') return { decision, reasons, message }
  const found = call.findings.map(({ reason }) => reason)
  return { decision, reasons: [...new Set([...found, ...reasons])], message }
}
