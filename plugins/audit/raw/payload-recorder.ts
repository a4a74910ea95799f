// Writes the raw payload dataset: short redacted previews of requests and responses. It runs
// after the response is released, so no caller waits for it.

import {
  type Call,
  type Clock,
  canonicalInput,
  isStream,
  type Logger,
  type Meter,
  type Outcome,
  type Redactor,
  type ResponseChunk,
  type ResponseStream,
  redactor,
  type Settlement,
} from '@svc/core'
import type { RawPayloadRecord } from '../log/format/envelope.js'
import { previewOf, windowBytes } from './preview.js'

interface PayloadRecorderParts {
  readonly clock: Clock
  readonly logger: Logger
  readonly meter: Meter
  /** Maximum bytes of a preview. */
  readonly previewBytes: number
  write(record: RawPayloadRecord): Promise<void>
}

/** The start of a payload, and its size. */
interface Payload {
  readonly head: Uint8Array
  readonly bytes: number
}

export class PayloadRecorder {
  readonly #parts: PayloadRecorderParts
  readonly #streamed = new WeakMap<Call, StreamedPayload>()
  readonly #writing = new Set<Promise<void>>()

  constructor(parts: PayloadRecorderParts) {
    this.#parts = parts
  }

  /** Returns the outcome; copies the start of its stream, if it has one, as it passes. */
  capture(call: Call, outcome: Outcome): Outcome {
    if (outcome.kind !== 'completed' || !isStream(outcome.body)) return outcome
    const payload = new StreamedPayload(windowBytes(this.#parts.previewBytes))
    this.#streamed.set(call, payload)
    return { ...outcome, body: observeStream(outcome.body, payload) }
  }

  /** Schedules the write of the call's payloads. */
  record(call: Call, settlement: Settlement, tenant: string): void {
    const { agent, trace, parsedRequest, receivedAt } = call
    const redacts = call.get(redactor)
    const common = {
      trace_id: trace.traceId,
      span_id: trace.spanId,
      runId: agent.agentRef === null ? trace.traceId : (redacts?.text(agent.agentRef) ?? agent.agentRef),
      tenant,
    }
    const input = parsedRequest === undefined ? undefined : canonicalInput(parsedRequest)
    const output = this.#outputOf(call, settlement)
    const endedAt = this.#parts.clock.now()
    const { previewBytes } = this.#parts
    setImmediate(() => {
      if (input !== undefined) {
        // A character has at least one byte, so this covers the window without encoding the rest.
        const head = Buffer.from(input.slice(0, windowBytes(previewBytes)))
        this.#write(
          { head, bytes: Buffer.byteLength(input) },
          { ...common, ts: instant(receivedAt), direction: 'input' },
          redacts,
        )
      }
      if (output !== undefined)
        this.#write(output, { ...common, ts: instant(endedAt), direction: 'output' }, redacts)
    })
  }

  /** Resolves when all scheduled payloads are written or have failed. */
  async settled(): Promise<void> {
    await new Promise((resolve) => setImmediate(resolve))
    await Promise.all(this.#writing)
  }

  #outputOf(call: Call, { outcome }: Settlement): Payload | undefined {
    if (outcome.kind !== 'completed') return undefined
    if (!isStream(outcome.body)) return { head: outcome.body, bytes: outcome.body.byteLength }
    return this.#streamed.get(call)?.payload()
  }

  #write(
    { head, bytes }: Payload,
    record: Omit<RawPayloadRecord, 'payload_preview' | 'payload_truncated' | 'payload_bytes'>,
    redacts: Redactor | undefined,
  ): void {
    const { text, isTruncated } = previewOf(head, bytes, this.#parts.previewBytes, redacts)
    const written = this.#parts
      .write({
        ...record,
        payload_preview: text,
        payload_truncated: isTruncated,
        payload_bytes: bytes,
      })
      .catch((error: unknown) => {
        this.#parts.meter.count('svc_audit_raw_payload_failures_total')
        this.#parts.logger.error(
          { trace_id: record.trace_id, err: error },
          'a raw payload could not be written',
        )
      })
      .finally(() => this.#writing.delete(written))
    this.#writing.add(written)
  }
}

/** The start of a stream or, if one chunk is the response itself, of that chunk. */
class StreamedPayload {
  readonly #limit: number
  #pieces: Uint8Array[] = []
  #kept = 0
  #bytes = 0
  #isCompleted = false

  constructor(limit: number) {
    this.#limit = limit
  }

  add({ bytes, response }: ResponseChunk): void {
    if (this.#isCompleted) return
    if (response !== undefined) {
      this.#isCompleted = true
      this.#pieces = []
      this.#kept = 0
      this.#bytes = 0
    }
    this.#bytes += bytes.byteLength
    if (this.#kept >= this.#limit) return
    // A copy: the chunk's buffer may be reused after it is sent.
    const piece = Buffer.from(bytes.subarray(0, this.#limit - this.#kept))
    this.#pieces.push(piece)
    this.#kept += piece.length
  }

  payload(): Payload {
    return { head: Buffer.concat(this.#pieces), bytes: this.#bytes }
  }
}

function observeStream(body: ResponseStream, payload: StreamedPayload): ResponseStream {
  return {
    ...(body.drainWhenAbandoned === undefined ? {} : { drainWhenAbandoned: body.drainWhenAbandoned }),
    async *[Symbol.asyncIterator]() {
      for await (const chunk of body) {
        payload.add(chunk)
        yield chunk
      }
    },
  }
}

function instant(ms: number): string {
  return new Date(ms).toISOString()
}
