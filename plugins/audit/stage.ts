// The outermost stage: whatever happens inside becomes one signed record, before the answer leaves.
import {
  type Appender,
  type Call,
  type Clock,
  denied,
  type Ids,
  type Lease,
  type Logger,
  type Meter,
  messageOf,
  type Next,
  type Outcome,
  Refusal,
  type Sent,
  type Settlement,
  type Stage,
} from '@svc/core'
import { FloodGate } from './flood.js'
import { PayloadRecorder } from './raw/payload-recorder.js'
import { floodRecordOf, type RecordFacts, recordOf } from './record.js'

export interface AuditStageParts {
  readonly clock: Clock
  readonly ids: Ids
  readonly logger: Logger
  readonly meter: Meter
  readonly failureMode: 'block' | 'continue'
  readonly facts: Omit<RecordFacts, 'keyId'>
  /** Bytes of each raw payload's preview; absent: no raw payloads. */
  readonly rawPreviewBytes?: number
  /** Opens the writer; `keyId` is null where the writer signs with a key of its own. */
  open(): { appender: Lease<Appender>; keyId: string | null }
}

const floodIntervalMs = 1000

export class AuditStage implements Stage {
  #parts: AuditStageParts
  #facts: RecordFacts
  #appender: Lease<Appender> | undefined
  #payloads: PayloadRecorder | undefined
  #flood = new FloodGate()
  #floodTimer: NodeJS.Timeout | undefined

  constructor(parts: AuditStageParts) {
    this.#parts = parts
    this.#facts = { ...parts.facts, keyId: null }
  }

  async start(): Promise<void> {
    const { appender, keyId } = this.#parts.open()
    this.#appender = appender
    this.#facts = { ...this.#parts.facts, keyId }
    await appender.value.ready?.()
    this.#payloads = this.#recorder(appender.value)
  }

  async stop(): Promise<void> {
    clearTimeout(this.#floodTimer)
    this.#floodTimer = undefined
    const appender = this.#appender
    if (appender === undefined) return
    this.#appender = undefined
    try {
      await this.#recordFlood(appender.value)
      await this.#payloads?.settled()
    } finally {
      await appender.release()
    }
  }

  ready(): string | undefined {
    if (this.#appender === undefined) return 'the log is not open'
    const status = this.#appender.value.status?.()
    if (status === undefined || status.writable) return undefined
    return `the log cannot be written: ${messageOf(status.error)}`
  }

  handle(call: Call, next: Next): Promise<Outcome> {
    const appender = this.#appender
    if (appender === undefined) throw new Error('the audit stage has not started')
    const arrived = this.#parts.clock.monotonic()
    call.onSettle((settlement) => this.#record(appender.value, call, settlement, arrived))
    // The record of this very refusal is the next attempt to write: the first that succeeds opens the gate.
    if (this.#parts.failureMode === 'block' && appender.value.status?.().writable === false) {
      return Promise.resolve(denied('AUDIT_UNAVAILABLE', 'The audit log cannot be written.'))
    }
    const payloads = this.#payloads
    return payloads === undefined ? next() : next().then((outcome) => payloads.listen(call, outcome))
  }

  explain(_call: Call, next: Next, say: (line: string) => void): Promise<Outcome> {
    say(`would record the call; when the log cannot be written: ${this.#parts.failureMode}`)
    return next()
  }

  async #record(appender: Appender, call: Call, settlement: Settlement, arrived: number): Promise<void> {
    if (settlement.error === 'UNAUTHENTICATED' && !this.#flood.admit(this.#parts.clock.now())) {
      this.#floodTimer ??= this.#scheduleFlood(appender)
      return
    }
    const latencyMs = this.#parts.clock.monotonic() - arrived
    const envelope = recordOf(this.#facts, { call, settlement, latencyMs })
    this.#payloads?.record(call, settlement, envelope.tenant)
    try {
      await appender.append(envelope)
    } catch (fault) {
      this.#lost(fault, { trace_id: call.trace.traceId })
      if (this.#parts.failureMode === 'block') throw unrecorded(settlement.sent, fault)
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
