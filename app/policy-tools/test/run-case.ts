// Runs the calls of one case through the stages of the policy, one after the other.
import { callRequest, idempotency, resolveOptional, type SectionEntry, services } from '@svc/core'
import type { CallControl } from '@svc/core/pipeline'
import { agentOf } from '../../http/call-headers.js'
import { trustCaller } from '../../in-process/tool-call.js'
import type { Policy } from '../../policy/config.js'
import { addressesOf } from '../../stdio/targets/config.js'
import { targetOf } from '../../upstream/target.js'
import type { At } from '../judge/clock.js'
import { Judge, type PolicyJudgement } from '../judge/judge.js'
import { collectNotes, type StageNote } from '../judge/stages.js'
import { unsentCall } from '../judge/unsent-call.js'
import { REPLAY, type TestCall, type TestCase } from './test-file.js'

/** `error`: the gateway failed, so the policy decided nothing. `unknown`: it depends on what the test does not say. */
export type TestDecision = 'allow' | 'deny' | 'confirm' | 'escalate' | 'error' | 'unknown'

export interface Judged {
  readonly decision: TestDecision
  /** Every name of the reason: the token that decided, and the error code. */
  readonly reasons: readonly string[]
  readonly message: string
  /** What the stages said of the call. */
  readonly notes: readonly StageNote[]
}

/** A call whose decision is not the expected one. */
interface Difference {
  readonly call: TestCall
  /** Counts from 1. */
  readonly number: number
  readonly judged: Judged
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
  readonly #judge: Judge
  readonly #run: CaseRun

  private constructor(judge: Judge, run: CaseRun) {
    this.#judge = judge
    this.#run = run
  }

  static async start(run: CaseRun, at?: At): Promise<CaseRunner> {
    const judge = await Judge.start(run.policy, { place: run, runsUnstated: true, through: 'end' })
    judge.clock.set(at)
    return new CaseRunner(judge, run)
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#judge[Symbol.asyncDispose]()
  }

  async run(test: TestCase): Promise<CaseResult> {
    let last: Judged = { decision: 'error', reasons: [], message: 'no call ran', notes: [] }
    for (const [index, call] of test.calls.entries()) {
      this.#judge.clock.set(call.at)
      for (let time = 0; time < call.times; time++) {
        last = await this.judge(call)
        if (isExpected(call, last)) continue
        return { test, last, difference: { call, number: index + 1, judged: last } }
      }
    }
    return { test, last, difference: undefined }
  }

  async judge(tested: TestCall): Promise<Judged> {
    const call = await this.#controlOf(tested)
    const notes: StageNote[] = []
    collectNotes(
      call,
      (note) => {
        if (note.entry !== undefined) this.#run.applied(note.entry)
        if (note.text !== '') notes.push(note)
      },
      tested.answers,
    )
    return judgedBy(await this.#judge.judge(call), notes)
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
    const call = unsentCall(request, { headers: sent, agent, receivedAt: this.#judge.clock.now() })
    if (caller !== undefined && 'identity' in caller) trustCaller(call, caller.identity)
    return call
  }

  /** A policy that validates no tokens refuses every token. */
  async #tokenOf({
    claims,
    isWhole,
  }: {
    claims: Parameters<MakeToken>[0]
    isWhole: boolean
  }): Promise<string> {
    const make = resolveOptional(this.#judge.container, services.testToken)
    return make === undefined ? 'e30.e30.e30' : make(claims, isWhole)
  }
}

type MakeToken = NonNullable<(typeof services.testToken)['type']>

const methods = { tool: 'tools/call', prompt: 'prompts/get', resource: 'resources/read' } as const

function isExpected({ expect, reason }: TestCall, { decision, reasons }: Judged): boolean {
  return decision === expect && (reason === undefined || reasons.includes(reason))
}

function judgedBy(
  { outcome, decision, possible, call }: PolicyJudgement,
  notes: readonly StageNote[],
): Judged {
  const found = call?.findings.map(({ reason }) => reason) ?? []
  if (possible.length > 0) {
    const missing = [...new Set(possible.flatMap((one) => one.missing))]
    return { decision: 'unknown', reasons: missing, message: `${missing.join(', ')} is not known`, notes }
  }
  if (outcome.kind === 'completed') {
    const isReplay = call?.get(idempotency) === REPLAY
    return { decision: 'allow', reasons: isReplay ? [REPLAY, ...found] : found, message: '', notes }
  }
  const { code, message } = outcome
  if (outcome.kind === 'failed') return { decision: 'error', reasons: [code], message, notes }
  const decided = outcome.denial?.reason
  const reasons = [...(decided === undefined ? [] : [decided]), code]
  if (decision === 'deny') return { decision, reasons, message, notes }
  return { decision, reasons: [...new Set([...found, ...reasons])], message, notes }
}
