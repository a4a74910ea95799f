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
import { defined } from '@svc/core/json'
import { redactPii } from '@svc/core/pii'
import type { RawPayloadRecord } from '../log/format/envelope.js'

interface PayloadRecorderOptions {
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
  readonly #options: PayloadRecorderOptions
  readonly #streamed = new WeakMap<Call, StreamedPayload>()
  readonly #writing = new Set<Promise<void>>()

  constructor(options: PayloadRecorderOptions) {
    this.#options = options
  }

  /** Returns the outcome; copies the start of its stream, if it has one, as it passes. */
  capture(call: Call, outcome: Outcome): Outcome {
    if (outcome.kind !== 'completed' || !isStream(outcome.body)) return outcome
    const payload = new StreamedPayload(windowBytes(this.#options.previewBytes))
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
    const endedAt = this.#options.clock.now()
    const { previewBytes } = this.#options
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
    const { text, isTruncated } = previewOf(head, bytes, this.#options.previewBytes, redacts)
    const written = this.#options
      .write({
        ...record,
        payload_preview: text,
        payload_truncated: isTruncated,
        payload_bytes: bytes,
      })
      .catch((error: unknown) => {
        this.#options.meter.count('svc_audit_raw_payload_failures_total')
        this.#options.logger.error(
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
    ...defined({ drainWhenAbandoned: body.drainWhenAbandoned }),
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

// Redaction reads beyond the preview, so that a secret that crosses its end is recognised.
const MARGIN_BYTES = 1_024

interface Preview {
  readonly text: string
  /** Whether the payload is longer than the preview. */
  readonly isTruncated: boolean
}

/** How many bytes of a payload's start `previewOf` needs. */
function windowBytes(previewBytes: number): number {
  return previewBytes + MARGIN_BYTES
}

/**
 * At most `previewBytes` of UTF-8, cut between characters.
 *
 * @param head the first `windowBytes` of the payload, or all of it. Invalid UTF-8 becomes U+FFFD.
 * @param totalBytes of the whole payload.
 * @param redactor removes identities if the policy requires it.
 */
export function previewOf(
  head: Uint8Array,
  totalBytes: number,
  previewBytes: number,
  redactor?: Redactor,
): Preview {
  const window = head.subarray(0, windowBytes(previewBytes))
  const isWhole = totalBytes <= window.length
  const text = decode(isWhole ? window : wholeCharacters(window))
  const clean = Buffer.from(redactPii(redactor === undefined ? text : redactor.text(text)))
  // A secret that the window cuts is not recognised by its first half: that half lies in the margin.
  const usable = isWhole ? clean.length : Math.max(0, clean.length - MARGIN_BYTES)
  const kept = wholeCharacters(clean.subarray(0, Math.min(usable, previewBytes)), clean)
  return { text: decode(kept), isTruncated: !isWhole || kept.length < clean.length }
}

/** Removes an incomplete UTF-8 sequence (RFC 3629 §3) from the end. */
function wholeCharacters(bytes: Uint8Array, all?: Uint8Array): Uint8Array {
  if (all !== undefined && bytes.length === all.length) return bytes
  for (let back = 1; back <= Math.min(4, bytes.length); back++) {
    const byte = bytes[bytes.length - back] ?? 0
    if ((byte & 0xc0) === 0x80) continue
    const length = byte < 0x80 ? 1 : byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1
    return length > back ? bytes.subarray(0, bytes.length - back) : bytes
  }
  return bytes
}

function decode(bytes: Uint8Array): string {
  return new TextDecoder('utf-8', { ignoreBOM: true }).decode(bytes)
}
