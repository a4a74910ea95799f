// The outermost stage: whatever happens inside becomes one signed record, before the answer leaves.
import {
  type Appender,
  type Call,
  type Clock,
  denied,
  type Ids,
  type Logger,
  type MaybePromise,
  type Meter,
  type Next,
  type Outcome,
  type RecordEvent,
  type Redactor,
  Refusal,
  redactedFault,
  redactor,
  type Sent,
  type Settlement,
  type Stage,
  services,
  type Token,
} from '@svc/core'
import { messageOf } from '@svc/core/json'
import { FloodGate } from './flood.js'
import { CallIntent, type IntentRule, intentInWords } from './intent/call-intent.js'
import type { Intents } from './intent/tracker.js'
import type { LogSource, OpenLog } from './open-log.js'
import { PayloadRecorder } from './raw/payload-recorder.js'
import { eventRecordOf, floodRecordOf, type RecordFacts, recordOf, unknownRecordOf } from './record.js'
import { redactedEnvelope } from './redact-envelope.js'

export interface AuditStageParts {
  readonly clock: Clock
  readonly ids: Ids
  readonly logger: Logger
  readonly meter: Meter
  readonly failureMode: 'block' | 'continue'
  /** Which calls have their intent written before they are sent. */
  readonly intent: 'off' | 'side_effects' | 'all'
  readonly log: LogSource
  readonly facts: Omit<RecordFacts, 'keyId'>
  /** Bytes of each raw payload's preview; absent: no raw payloads. */
  readonly rawPreviewBytes?: number
  /** For events; undefined where identities are not redacted. */
  redactor?(): Redactor | undefined
}

const floodIntervalMs = 1000

/** A call that has settled. */
interface Ended {
  readonly call: Call
  readonly settlement: Settlement
  /** Monotonic, milliseconds. */
  readonly arrived: number
  readonly intent: CallIntent | undefined
  /** False for a call that this stage itself refused. */
  readonly isPassedOn: boolean
}

export class AuditStage implements Stage {
  #parts: AuditStageParts
  #facts: RecordFacts
  #log: OpenLog | undefined
  #intentRule: IntentRule | undefined
  #payloads: PayloadRecorder | undefined
  #flood = new FloodGate()
  #floodTimer: NodeJS.Timeout | undefined

  constructor(parts: AuditStageParts) {
    this.#parts = parts
    this.#facts = { ...parts.facts, keyId: null }
  }

  async start(): Promise<void> {
    const log = this.#parts.log.open()
    const { appender, intents, signer } = log
    this.#log = log
    this.#facts = { ...this.#parts.facts, keyId: signer?.keyId ?? null }
    await appender.ready?.()
    await intents?.start()
    this.#intentRule = this.#ruleOf(intents)
    this.#payloads = this.#recorder(appender)
  }

  async stop(): Promise<void> {
    clearTimeout(this.#floodTimer)
    this.#floodTimer = undefined
    const log = this.#log
    if (log === undefined) return
    this.#log = undefined
    try {
      await this.#recordFlood(log.appender)
      await this.#payloads?.settled()
    } finally {
      await this.#parts.log.close()
    }
  }

  ready(): string | undefined {
    if (this.#log === undefined) return 'the log is not open'
    const status = this.#log.appender.status?.()
    if (status !== undefined && !status.writable)
      return `the log cannot be written: ${messageOf(status.error)}`
    return this.#intentRule?.intents.failure?.message
  }

  warning(): string | undefined {
    return this.#log?.appender.status?.().warning
  }

  offer<T>(service: Token<T>): T | undefined
  offer(service: symbol): unknown {
    return service === services.record ? this.#recordEvent : undefined
  }

  handle(call: Call, next: Next): MaybePromise<Outcome> {
    if (this.#log === undefined) throw new Error('the audit stage has not started')
    const { appender } = this.#log
    const arrived = this.#parts.clock.monotonic()
    const intent = this.#intentOf(call, arrived)
    const isPassedOn = this.#parts.failureMode !== 'block' || appender.status?.().writable !== false
    call.onSettle((settlement) => this.#record(appender, { call, settlement, arrived, intent, isPassedOn }))
    // The record of this very refusal is the next attempt to write: the first that succeeds opens the gate.
    if (!isPassedOn) {
      return denied('AUDIT_UNAVAILABLE', 'The audit log cannot be written.')
    }
    if (intent !== undefined) call.hold(intent)
    const payloads = this.#payloads
    if (payloads === undefined) return next()
    return Promise.resolve(next()).then((outcome) => payloads.listen(call, outcome))
  }

  async explain(call: Call, next: Next, say: (line: string) => void): Promise<Outcome> {
    const { failureMode, intent, log, rawPreviewBytes } = this.#parts
    say(`would record the call; when the log cannot be written: ${failureMode}`)
    if (rawPreviewBytes !== undefined) {
      say(`would keep redacted previews of both directions, of at most ${rawPreviewBytes} bytes`)
    }
    const outcome = await next()
    // What the call may change is told by the stages within.
    const isSent = outcome.kind === 'completed'
    say(
      intentInWords(
        { which: log.keepsIntents ? intent : 'nowhere', failureMode, isSent },
        await call.request(),
        call,
      ),
    )
    return outcome
  }

  #ruleOf(intents: Intents | undefined): IntentRule | undefined {
    const { intent: which, failureMode } = this.#parts
    if (intents === undefined || which === 'off') return undefined
    return {
      intents,
      which,
      failureMode,
      onFailure: (err) => {
        this.#parts.meter.count('svc_audit_intent_failures_total')
        this.#parts.logger.error({ err }, 'the intent of a call could not be written')
      },
    }
  }

  #intentOf(call: Call, arrived: number): CallIntent | undefined {
    if (this.#intentRule === undefined) return undefined
    return new CallIntent(this.#intentRule, call, () =>
      unknownRecordOf(this.#facts, call, this.#parts.clock.monotonic() - arrived),
    )
  }

  async #record(appender: Appender, { call, settlement, arrived, intent, isPassedOn }: Ended): Promise<void> {
    if (settlement.error === 'UNAUTHENTICATED' && !this.#flood.admit(this.#parts.clock.now())) {
      this.#floodTimer ??= this.#scheduleFlood(appender)
      return
    }
    const latencyMs = this.#parts.clock.monotonic() - arrived
    const envelope = recordOf(this.#facts, {
      call,
      settlement,
      latencyMs,
      inputSha256: intent?.inputSha256,
    })
    // No stage has looked at it, nor said how far it may be written down.
    if (!isPassedOn) Object.assign(envelope, { agentVariables: null, agentMetadata: null })
    this.#payloads?.record(call, settlement, envelope.tenant)
    try {
      await appender.append(envelope)
      intent?.settle(true)
    } catch (fault) {
      intent?.settle(false)
      const redacts = call.get(redactor)
      const told = redacts === undefined ? fault : redactedFault(fault, redacts)
      this.#lost(told, { trace_id: call.trace.traceId })
      if (this.#parts.failureMode === 'block') throw unrecorded(settlement.sent, fault)
    }
  }

  #recordEvent: RecordEvent = async (event) => {
    const { clock, ids, failureMode, redactor: redactorOf } = this.#parts
    const at = { ts: new Date(clock.now()).toISOString(), spanId: ids.spanId() }
    const envelope = eventRecordOf(this.#facts, event, at)
    const redacts = redactorOf?.()
    try {
      if (this.#log === undefined) throw new Error('the log is not open')
      await this.#log.appender.append(
        redacts === undefined ? envelope : redactedEnvelope(envelope, redacts, undefined),
      )
    } catch (fault) {
      this.#lost(redacts === undefined ? fault : redactedFault(fault, redacts), { event: event.name })
      if (failureMode === 'block') throw unrecorded('no', fault)
    }
  }

  #recorder(appender: Appender): PayloadRecorder | undefined {
    const { clock, logger, meter, rawPreviewBytes: previewBytes } = this.#parts
    if (previewBytes === undefined) return undefined
    const write = appender.appendRawPayload?.bind(appender)
    if (write === undefined) {
      throw new Error('audit.raw_payloads is on, but the writer in use has no appendRawPayload')
    }
    return new PayloadRecorder({ clock, logger, meter, previewBytes, write })
  }

  #lost(fault: unknown, fields: object): void {
    this.#parts.meter.count('svc_audit_append_failures_total')
    this.#parts.logger.error({ ...fields, err: fault }, 'a record could not be written')
  }

  #scheduleFlood(appender: Appender): NodeJS.Timeout {
    const timer = setTimeout(() => {
      this.#floodTimer = undefined
      this.#recordFlood(appender).catch((fault: unknown) => this.#lost(fault, {}))
    }, floodIntervalMs)
    return timer.unref()
  }

  async #recordFlood(appender: Appender): Promise<void> {
    const count = this.#flood.take()
    if (count === 0) return
    const { clock, ids } = this.#parts
    const ts = new Date(clock.now()).toISOString()
    await appender.append(
      floodRecordOf(this.#facts, count, { ts, traceId: ids.traceId(), spanId: ids.spanId() }),
    )
  }
}

/** What the caller is told in place of an answer that has no record. */
function unrecorded(sent: Sent, cause: unknown): Refusal {
  return sent === 'no'
    ? new Refusal('AUDIT_UNAVAILABLE', 'The call could not be recorded, so it is not answered.', { cause })
    : new Refusal(
        'OUTCOME_UNRECORDED',
        'The call may have run, but its record could not be made durable; the answer is withheld.',
        { cause },
      )
}
