// A candidate policy beside the one in force: judges calls after their responses, and counts where it decides otherwise.

import {
  type Call,
  type CallRequest,
  type Clock,
  escalation,
  externalDecision,
  type Identity,
  identity,
  type Logger,
  type Outcome,
  verdict,
} from '@svc/core'
import { defined } from '@svc/core/json'
import { Differences, type ShadowDecision, type ShadowReport, type ShadowResult } from './differences.js'

/** Judges with nothing outside the process. */
export interface ShadowCandidate {
  readonly sha256: string | null
  /** The stages that it runs. */
  readonly stages: ReadonlySet<string>
  /** Stages that decide after them: a call that reached these was allowed. */
  readonly later: ReadonlySet<string>
  /** Undefined if the decision rests on what it does not know. */
  judge(call: Call, caller: Identity, request: CallRequest): Promise<ShadowDecision | undefined>
  close(): Promise<void>
}

interface ShadowOptions {
  readonly clock: Pick<Clock, 'monotonic'>
  readonly logger: Logger
  /** Part of one core that judging may take. */
  readonly maxShare: number
  count(result: ShadowResult): void
  /** Writes the differences since the last report. Rejects if it cannot. */
  report(report: ShadowReport): Promise<void>
}

const REPORT_MS = 10_000
/** Calls that wait to be judged; others are skipped. */
const MAX_WAITING = 1_000

interface Waiting {
  readonly call: Call
  readonly caller: Identity
  readonly request: CallRequest
  readonly inForce: ShadowDecision
}

export class Shadow {
  readonly #candidate: ShadowCandidate
  readonly #options: ShadowOptions
  readonly #sampling: Sampling
  readonly #all = new Differences()
  #unreported = new Differences()
  #waiting: Waiting[] = []
  #judging: Promise<void> | undefined
  #timer: NodeJS.Timeout | undefined
  #hasFailed = false

  constructor(candidate: ShadowCandidate, options: ShadowOptions) {
    this.#candidate = candidate
    this.#options = options
    this.#sampling = new Sampling(options.clock, options.maxShare)
    this.#timer = setInterval(() => void this.#report(), REPORT_MS).unref()
  }

  /** The report about all calls since the start. */
  get status(): ShadowReport {
    return this.#all.report(this.#candidate.sha256)
  }

  /** A call whose response is written. Never throws. */
  offer(call: Call, outcome: Outcome): void {
    const [caller, request] = [call.get(identity), call.parsedRequest]
    const inForce = this.#decisionInForce(call, outcome)
    if (caller === undefined || request === undefined || inForce === undefined) return
    const isChosen = this.#sampling.choose(call.trace.traceId) && this.#waiting.length < MAX_WAITING
    if (!isChosen) {
      this.#add('skipped')
      return
    }
    this.#waiting.push({ call, caller, request, inForce })
    // The event loop serves other calls first.
    this.#judging ??= new Promise((resolve) => setImmediate(resolve)).then(() => this.#judgeAll())
  }

  /** Judges what waits, and reports the rest. */
  async close(): Promise<void> {
    clearInterval(this.#timer)
    await this.#judging
    await this.#report()
    await this.#candidate.close()
  }

  async #judgeAll(): Promise<void> {
    for (let next = this.#waiting.shift(); next !== undefined; next = this.#waiting.shift()) {
      await this.#judge(next)
      await new Promise((resolve) => setImmediate(resolve))
    }
    this.#judging = undefined
  }

  async #judge({ call, caller, request, inForce }: Waiting): Promise<void> {
    const began = this.#options.clock.monotonic()
    try {
      const decision = await this.#candidate.judge(call, caller, request)
      if (decision === undefined) return this.#add('unknown')
      const isSame = decision.decision === inForce.decision
      this.#add(isSame ? 'same' : 'different', () => ({
        tool: request.reference,
        in_force: inForce.decision,
        shadow: decision.decision,
        // Why the call is, or was, not allowed.
        reason: decision.reason ?? inForce.reason ?? '',
        trace_id: call.trace.traceId,
      }))
    } catch (err) {
      this.#add('failed')
      if (!this.#hasFailed)
        this.#options.logger.warn({ err }, 'the shadow policy fails on calls; the one in force does not')
      this.#hasFailed = true
    } finally {
      this.#sampling.spent(this.#options.clock.monotonic() - began)
    }
  }

  #add(result: ShadowResult, difference?: () => Parameters<Differences['add']>[1] & object): void {
    this.#options.count(result)
    const found = result === 'different' ? difference?.() : undefined
    for (const one of [this.#all, this.#unreported]) one.add(result, found)
  }

  async #report(): Promise<void> {
    const unreported = this.#unreported
    if (!unreported.hasDifferences) return
    this.#unreported = new Differences()
    try {
      await this.#options.report(unreported.report(this.#candidate.sha256))
    } catch (err) {
      this.#options.logger.error({ err }, 'the differences of the shadow policy could not be recorded')
    }
  }

  /** Undefined if a part decided that the candidate does not have, such as a runtime or the check of a token. */
  #decisionInForce(call: Call, outcome: Outcome): ShadowDecision | undefined {
    const { stages, later } = this.#candidate
    if (call.get(externalDecision) !== undefined || call.get(verdict) === undefined) return undefined
    if (call.get(escalation) !== undefined) return { decision: 'escalate' }
    if (call.judgedFindings().some(({ effect }) => effect === 'confirm')) return { decision: 'confirm' }
    const { endedBy } = call
    if (outcome.kind !== 'denied' || endedBy === undefined || later.has(endedBy)) return { decision: 'allow' }
    const { type, reason } = outcome.denial ?? {}
    if (type === undefined || !stages.has(type)) return undefined
    return { decision: 'deny', ...defined({ reason }) }
  }
}

const WINDOW_MS = 1_000

/** Chooses calls by their trace, so that judging takes at most a part of one core. */
export class Sampling {
  readonly #clock: Pick<Clock, 'monotonic'>
  readonly #maxShare: number
  #rate = 1
  #began: number
  #offered = 0
  #judged = 0
  #spentMs = 0

  constructor(clock: Pick<Clock, 'monotonic'>, maxShare: number) {
    this.#clock = clock
    this.#maxShare = maxShare
    this.#began = clock.monotonic()
  }

  /** All calls of a trace are chosen, or none, while the rate stays. */
  choose(traceId: string): boolean {
    this.#adjust()
    this.#offered++
    // The window's time for all calls is used up.
    if (this.#spentMs >= this.#maxShare * WINDOW_MS) return false
    // The end of a trace id is random (W3C Trace Context), the beginning may be a time.
    return Number.parseInt(traceId.slice(-8), 16) / 2 ** 32 < this.#rate
  }

  /** A call was judged. */
  spent(ms: number): void {
    this.#judged++
    this.#spentMs += ms
  }

  /** The rate with which the calls of the last window would have stayed within the bound. */
  #adjust(): void {
    const passed = this.#clock.monotonic() - this.#began
    if (passed < WINDOW_MS) return
    if (this.#judged > 0) {
      const all = (this.#spentMs / this.#judged) * this.#offered
      this.#rate = Math.min(1, (this.#maxShare * passed) / all)
    }
    this.#began += passed
    this.#offered = 0
    this.#judged = 0
    this.#spentMs = 0
  }
}
