// The outermost stage: every call becomes one signed record before the response is sent.
import {
  type Appender,
  after,
  type Call,
  type Clock,
  type DoctorCheck,
  denied,
  errorFields,
  type Ids,
  isPending,
  type Logger,
  type MaybePromise,
  type Meter,
  type Next,
  type Outcome,
  type RecordEvent,
  type RecordOnSettle,
  type Redactor,
  Refusal,
  redactedError,
  type Sent,
  type Settlement,
  type Stage,
  type StageHealth,
} from '@svc/core'
import { messageOf } from '@svc/core/json'
import { CallIntent, type IntentRule } from './intent/call-intent.js'
import type { IntentTracker } from './intent/tracker.js'
import type { AuditEnvelope } from './log/format/envelope.js'
import type { LogSource, OpenLog } from './open-log.js'
import { PayloadRecorder } from './raw/payload-recorder.js'
import {
  eventRecordOf,
  floodRecordOf,
  type RecordContext,
  type RecordListener,
  recordOf,
  unknownRecordOf,
} from './record.js'
import { AgentRunLimiter, FloodLimiter, isUnidentified } from './record-limits.js'
import { redactEnvelope } from './redact-envelope.js'

interface AuditStageOptions {
  readonly clock: Clock
  readonly ids: Ids
  readonly logger: Logger
  readonly meter: Meter
  readonly failureMode: 'block' | 'continue'
  /** Calls whose intent is written before they are sent. */
  readonly intent: 'off' | 'side_effects' | 'all'
  readonly log: LogSource
  readonly recordContext: Omit<RecordContext, 'keyId'>
  /** Maximum bytes of a raw payload preview; absent: no raw payloads. */
  readonly rawPreviewBytes?: number
  /** The redactor of events; undefined if identities are not redacted. */
  redactor?(): Redactor | undefined
  readonly onRecord?: RecordListener | undefined
  doctor(): Promise<readonly DoctorCheck[]>
}

const FLOOD_INTERVAL_MS = 1000

/** Replaces what an unidentified caller states about itself. */
const UNCLAIMED = {
  nodeId: null,
  agentRef: null,
  agentVariables: null,
  agentMetadata: null,
  idempotency_key: null,
} as const

/** Bytes of a record without the names in the caller's request. */
const RECORD_BYTES = 1500

interface AdmittedCall {
  readonly call: Call
  /** Monotonic, milliseconds. */
  readonly arrived: number
  /** Monotonic, milliseconds; undefined if the upstream has not begun to respond. */
  firstByte: number | undefined
  /** Has the SHA-256 of the arguments, if it has been computed. */
  readonly intent: Pick<CallIntent, 'inputDigest' | 'settle'> | undefined
  /** False for a call that this stage refused. */
  readonly isForwarded: boolean
}

/** The response waits for the record however long the disk takes, because a record after it could differ from it. */
const RECORD_MS = Number.POSITIVE_INFINITY

export class AuditStage implements Stage {
  #options: AuditStageOptions
  #recordContext: RecordContext
  #log: OpenLog | undefined
  #intentRule: IntentRule | undefined
  #payloads: PayloadRecorder | undefined
  #flood = new FloodLimiter()
  #agentRuns = new AgentRunLimiter()
  #floodTimer: NodeJS.Timeout | undefined

  constructor(options: AuditStageOptions) {
    this.#options = options
    this.#recordContext = { ...options.recordContext, keyId: null }
  }

  async start(): Promise<void> {
    const log = await this.#options.log.open()
    const { appender, intents, signer, notices } = log
    this.#log = log
    this.#recordContext = { ...this.#options.recordContext, keyId: signer?.keyId ?? null }
    try {
      await appender.ready?.()
      this.#keepPolicy()
    } catch (error) {
      notices?.error(error)
      throw error
    }
    await intents?.start()
    this.#intentRule = this.#ruleOf(intents)
    this.#payloads = this.#recorder(appender)
  }

  #keepPolicy(): void {
    const { log, failureMode, logger } = this.#options
    try {
      log.keepPolicy()
    } catch (err) {
      if (failureMode === 'block')
        throw new Error(`the policy cannot be kept: ${messageOf(err)}`, { cause: err })
      logger.error({ err }, 'the policy cannot be kept beside the log')
    }
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
      await this.#options.log.close()
    }
  }

  health(): StageHealth | undefined {
    if (this.#log === undefined) return { state: 'down', reason: 'the log is not open' }
    const status = this.#log.appender.status?.()
    if (status !== undefined && !status.writable)
      return { state: 'down', reason: `the log cannot be written: ${messageOf(status.error)}` }
    const failure = this.#intentRule?.intents.failure
    if (failure !== undefined) return { state: 'down', reason: failure.message }
    return status?.warning === undefined ? undefined : { state: 'warning', reason: status.warning }
  }

  doctor(): Promise<readonly DoctorCheck[]> {
    return this.#options.doctor()
  }

  handle(call: Call, next: Next): MaybePromise<Outcome> {
    if (this.#log === undefined) throw new Error('the audit stage has not started')
    const { appender } = this.#log
    const arrived = this.#options.clock.monotonic()
    const rule = this.#intentRule
    const intent = rule === undefined ? undefined : new CallIntent(rule, call, arrived)
    const isForwarded =
      this.#options.failureMode !== 'block' || (appender.isWritable ?? appender.status?.().writable) !== false
    const admitted: AdmittedCall = { call, arrived, firstByte: undefined, intent, isForwarded }
    call.onFirstByte(() => {
      admitted.firstByte = this.#options.clock.monotonic()
    })
    call.onSettle((settlement) => this.#record(appender, admitted, settlement), RECORD_MS)
    // The record of this refusal is the next attempt to write; the first success lets calls pass again.
    if (!isForwarded) {
      return denied('AUDIT_UNAVAILABLE', 'The audit log cannot be written.')
    }
    if (intent !== undefined) call.hold(intent)
    const payloads = this.#payloads
    if (payloads === undefined) return next()
    return after(next(), (outcome) => payloads.capture(call, outcome))
  }

  #ruleOf(intents: IntentTracker | undefined): IntentRule | undefined {
    const { intent: which, failureMode } = this.#options
    if (intents === undefined || which === 'off') return undefined
    return {
      intents,
      which,
      failureMode,
      recordOf: (call, arrived) =>
        unknownRecordOf(this.#recordContext, call, this.#options.clock.monotonic() - arrived),
      onFailure: (call, error) => {
        this.#options.meter.count('svc_audit_intent_failures_total')
        this.#options.logger.error(errorFields(call, error), 'the intent of a call could not be written')
      },
    }
  }

  #record(appender: Appender, admitted: AdmittedCall, settlement: Settlement): MaybePromise<void> {
    const { call, arrived, firstByte, intent, isForwarded } = admitted
    const unidentified = settlement.error !== null && isUnidentified(call, settlement)
    if (unidentified && !this.#flood.admit(this.#options.clock.now(), sizeOf(call))) {
      this.#floodTimer ??= this.#scheduleFlood(appender)
      return
    }
    const latencyMs = this.#options.clock.monotonic() - arrived
    const envelope = recordOf(this.#recordContext, {
      call,
      settlement,
      latencyMs,
      firstByteMs: firstByte === undefined ? undefined : firstByte - arrived,
      inputDigest: intent?.inputDigest,
    })
    // No stage has checked these members or decided how they may be recorded.
    if (!isForwarded) Object.assign(envelope, { agentVariables: null, agentMetadata: null })
    // A caller can claim to be any agent, and each agent has a file of its own.
    if (unidentified) Object.assign(envelope, UNCLAIMED)
    else {
      if (envelope.agentRef !== null) this.#limitAgentRuns(envelope)
      this.#payloads?.record(call, settlement, envelope.tenant)
    }
    return this.#append(appender, envelope, admitted, settlement)
  }

  #append(
    appender: Appender,
    envelope: AuditEnvelope,
    admitted: AdmittedCall,
    settlement: Settlement,
  ): MaybePromise<void> {
    const { clock, meter, onRecord } = this.#options
    const began = meter.observe === undefined ? 0 : clock.monotonic()
    const recorded = (): void => {
      meter.observe?.('svc_audit_append_duration_seconds', (clock.monotonic() - began) / 1000)
      admitted.intent?.settle(true)
      onRecord?.(envelope)
    }
    let appending: MaybePromise<void>
    try {
      appending = appender.append(envelope)
    } catch (error) {
      return this.#unrecorded(admitted, settlement, error)
    }
    // An appender of a program in JavaScript may return no promise.
    if (!isPending(appending)) return recorded()
    return appending.then(recorded, (error: unknown) => this.#unrecorded(admitted, settlement, error))
  }

  /** Throws if the response must be withheld. */
  #unrecorded({ call, intent }: AdmittedCall, { sent }: Settlement, error: unknown): void {
    intent?.settle(false)
    const { err, ...ids } = errorFields(call, error)
    this.#appendFailed(err, ids)
    if (this.#options.failureMode === 'block') throw unrecordedRefusal(sent, error)
  }

  #limitAgentRuns(envelope: AuditEnvelope): void {
    if (this.#agentRuns.admit(envelope, this.#options.clock.now())) return
    envelope.agentRef = null
    this.#options.meter.count('svc_audit_agent_runs_unnamed_total')
  }

  readonly recordOnSettle: RecordOnSettle = (call, inputDigest) => {
    if (this.#log === undefined) throw new Error('the log is not open')
    const { appender } = this.#log
    const intent = { inputDigest, settle: () => undefined }
    const arrived = this.#options.clock.monotonic()
    const admitted: AdmittedCall = { call, arrived, firstByte: undefined, intent, isForwarded: true }
    call.onSettle((settlement) => this.#record(appender, admitted, settlement), RECORD_MS)
  }

  readonly recordEvent: RecordEvent = async (event) => {
    const { clock, ids, failureMode, redactor: redactorOf } = this.#options
    const at = { ts: new Date(clock.now()).toISOString(), spanId: ids.spanId() }
    const envelope = eventRecordOf(this.#recordContext, event, at)
    const redacts = redactorOf?.()
    try {
      if (this.#log === undefined) throw new Error('the log is not open')
      const record = redacts === undefined ? envelope : redactEnvelope(envelope, redacts, 'event')
      await this.#log.appender.append(record)
      this.#options.onRecord?.(record)
    } catch (error) {
      this.#appendFailed(redacts === undefined ? error : redactedError(error, redacts), { event: event.name })
      if (failureMode === 'block') throw unrecordedRefusal('no', error)
    }
  }

  #recorder(appender: Appender): PayloadRecorder | undefined {
    const { clock, logger, meter, rawPreviewBytes: previewBytes } = this.#options
    if (previewBytes === undefined) return undefined
    const write = appender.appendRawPayload?.bind(appender)
    if (write === undefined) {
      throw new Error('audit.raw_payloads is on, but the writer in use has no appendRawPayload')
    }
    return new PayloadRecorder({ clock, logger, meter, previewBytes, write })
  }

  #appendFailed(error: unknown, fields: object): void {
    this.#options.meter.count('svc_audit_append_failures_total')
    this.#options.logger.error({ ...fields, err: error }, 'a record could not be written')
  }

  #scheduleFlood(appender: Appender): NodeJS.Timeout {
    const timer = setTimeout(() => {
      this.#floodTimer = undefined
      this.#recordFlood(appender).catch((error: unknown) => this.#appendFailed(error, {}))
    }, FLOOD_INTERVAL_MS)
    return timer.unref()
  }

  async #recordFlood(appender: Appender): Promise<void> {
    const count = this.#flood.takeSuppressed()
    if (count === 0) return
    const { clock, ids } = this.#options
    const ts = new Date(clock.now()).toISOString()
    await appender.append(
      floodRecordOf(this.#recordContext, count, { ts, traceId: ids.traceId(), spanId: ids.spanId() }),
    )
  }
}

/** Bytes of an unidentified caller's record, at most about. */
function sizeOf({ target: { server, tool, serverVersion, toolVersion, mcpMethod } }: Call): number {
  const named = `${server}${serverVersion}${tool}${toolVersion}${mcpMethod ?? ''}`
  return RECORD_BYTES + Buffer.byteLength(named)
}

/** The refusal that replaces a response without a record. */
function unrecordedRefusal(sent: Sent, cause: unknown): Refusal {
  return sent === 'no'
    ? new Refusal('AUDIT_UNAVAILABLE', 'The call could not be recorded, so it is refused.', { cause })
    : new Refusal(
        'OUTCOME_UNRECORDED',
        'The call may have run, but its record could not be made durable; the response is withheld.',
        { cause },
      )
}
