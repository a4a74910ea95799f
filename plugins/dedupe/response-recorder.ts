// Records the response of the first call as it passes, and decides at its end what the store keeps.
import {
  type Call,
  type Completed,
  type ErrorCode,
  isErrorCode,
  isStream,
  type ResponseChunk,
  type ResponseHeaders,
  type ResponseStream,
  type Settlement,
} from '@svc/core'

export interface StoredResponse {
  readonly status: number
  readonly headers: ResponseHeaders
  /** SHA-256, hex, of the output in audit records, if the output is not the body. */
  readonly digest: string | null
  readonly error: ErrorCode | null
  readonly body: Uint8Array
}

const LINE_FEED = 10

/** Headers about the moment of the first response, which a replay does not repeat. */
const transientHeaders: ReadonlySet<string> = new Set([
  'x-rate-remaining',
  'x-quota-remaining',
  'x-quota-reset-at',
  'ratelimit',
  'ratelimit-policy',
  'retry-after',
])

/** The headers of a response that its replay repeats. */
function replayableHeaders(headers: ResponseHeaders): ResponseHeaders {
  return Object.fromEntries(Object.entries(headers).filter(([name]) => !transientHeaders.has(name)))
}

function encodeResponse({ body, ...head }: StoredResponse): Uint8Array {
  return Buffer.concat([Buffer.from(`${JSON.stringify(head)}\n`), body])
}

/** @throws {Error} if the bytes are not a stored response */
export function decodeResponse(bytes: Uint8Array): StoredResponse {
  const end = bytes.indexOf(LINE_FEED)
  const head: unknown = JSON.parse(Buffer.from(bytes.subarray(0, Math.max(0, end))).toString() || 'null')
  if (!isHead(head)) throw new Error('the stored response cannot be read')
  return { ...head, body: bytes.subarray(end + 1) }
}

/** The outcome of a call that repeats the stored one; `body` takes the place of the stored body. */
export function replayOf(stored: StoredResponse, body: Uint8Array = stored.body): Completed {
  const { status, headers, digest, error } = stored
  return {
    kind: 'completed',
    status,
    headers: { ...headers, 'x-dedupe': 'replay' },
    body,
    ...(digest === null ? {} : { digest }),
    ...(error === null ? {} : { error }),
  }
}

function isHead(value: unknown): value is Omit<StoredResponse, 'body'> {
  if (typeof value !== 'object' || value === null) return false
  const { status, headers, digest, error } = value as Partial<Record<keyof StoredResponse, unknown>>
  return (
    Number.isInteger(status) &&
    typeof headers === 'object' &&
    headers !== null &&
    Object.values(headers).every(isHeader) &&
    (digest === null || typeof digest === 'string') &&
    (error === null || isErrorCode(error))
  )
}

function isHeader(value: unknown): boolean {
  return typeof value === 'string' || (Array.isArray(value) && value.every((one) => typeof one === 'string'))
}

/** The end of the key: it keeps a response (null: only that there was one), is released, or becomes unknown. */
type Ending = { readonly response: Uint8Array | null } | 'released' | 'unknown'

/** Statuses by which an HTTP server says that it has not acted: the key is free (RFC 9110 §15.5, RFC 6585 §4). */
const notActed: ReadonlySet<number> = new Set([401, 403, 429])

/** Statuses by which an MCP server says that it has not accepted the message; a tool's response comes with 200. */
const notAccepted: ReadonlySet<number> = new Set([400, 401, 403, 404, 405, 406, 413, 415, 429])

interface RecorderOptions {
  /** The largest body that is kept, in bytes. */
  readonly maxBytes: number
  /** Milliseconds for which a streamed response is still read after its caller has disconnected. */
  readonly drainMs: number
}

export class ResponseRecorder {
  #call: Call
  #options: RecorderOptions
  #chunks: Uint8Array[] = []
  #size = 0
  #isComplete = false
  #head: Omit<StoredResponse, 'body'> | undefined
  #hasDisconnected = false
  #cleanups: (() => void)[] = []

  constructor(call: Call, options: RecorderOptions) {
    this.#call = call
    this.#options = options
  }

  /** The same response; its body is recorded as it is read. */
  record(outcome: Completed): Completed {
    const { status, error = null, digest = null, body } = outcome
    this.#head = { status, headers: this.#headersOf(outcome), error, digest }
    if (isStream(body)) return { ...outcome, body: this.#isMcp ? this.#recorded(body) : this.#drained(body) }
    this.#keep(body)
    this.#isComplete = true
    return outcome
  }

  /** The result, once a call that was sent has settled. */
  ending(settlement: Settlement): Ending {
    for (const cleanup of this.#cleanups.splice(0)) cleanup()
    // The call was sent and has run: its response was too large.
    if (settlement.error === 'PAYLOAD_TOO_LARGE' && !this.#isComplete) return { response: null }
    if (this.#head === undefined) return 'unknown'
    const { status } = this.#head
    if (!this.#isComplete || !isDelivered(settlement)) return 'unknown'
    if ((this.#isMcp ? notAccepted : notActed).has(status)) return 'released'
    if (this.#isTooLarge) return { response: null }
    return { response: encodeResponse({ ...this.#head, body: Buffer.concat(this.#chunks) }) }
  }

  get #isMcp(): boolean {
    return this.#call.protocol === 'mcp'
  }

  get #isTooLarge(): boolean {
    return this.#size > this.#options.maxBytes
  }

  /** An MCP stream is replayed as the JSON-RPC response in it, without the stream. */
  #headersOf({ headers, body }: Completed): Completed['headers'] {
    if (!this.#isMcp) return replayableHeaders(headers)
    const type = isStream(body) ? 'application/json' : headers['content-type']
    return type === undefined ? {} : { 'content-type': type }
  }

  /** A caller that has disconnected may repeat the call for the response, so the stream is still read for some time. */
  #drained(body: ResponseStream): ResponseStream {
    this.#cleanups.push(
      this.#call.onDisconnect(() => {
        this.#hasDisconnected = true
        const timer = setTimeout(() => this.#giveUp(), this.#options.drainMs)
        this.#cleanups.push(() => clearTimeout(timer))
      }),
    )
    return { ...this.#recorded(body), drainWhenAbandoned: true }
  }

  #giveUp(): void {
    this.#call.abort('CANCELLED', 'The caller disconnected before the response was complete.')
  }

  #recorded(body: ResponseStream): ResponseStream {
    const { drainWhenAbandoned = false } = body
    return { drainWhenAbandoned, [Symbol.asyncIterator]: () => this.#chunksOf(body) }
  }

  async *#chunksOf(body: ResponseStream): AsyncGenerator<ResponseChunk> {
    for await (const chunk of body) {
      if (!this.#isMcp) this.#keep(chunk.bytes)
      else if (chunk.response?.content !== undefined) {
        const { content, digest, error = null } = chunk.response
        this.#keep(Buffer.from(content))
        this.#isComplete = true
        if (this.#head !== undefined) this.#head = { ...this.#head, digest, error }
      }
      if (this.#hasDisconnected && this.#isTooLarge) this.#giveUp()
      yield chunk
    }
    if (!this.#isMcp) this.#isComplete = true
  }

  #keep(bytes: Uint8Array): void {
    this.#size += bytes.byteLength
    if (this.#isTooLarge) this.#chunks = []
    else this.#chunks.push(bytes)
  }
}

/**
 * Whether the response reached its caller, or an outer stage denied it, as that stage will deny the replay. Any other
 * code means that the response was cut off, or was withheld because the audit record could not be written.
 */
function isDelivered({ outcome, error }: Settlement): boolean {
  if (error === null || error === 'UPSTREAM' || error === 'PAYLOAD_TOO_LARGE') return true
  return outcome.kind === 'denied' && outcome.code === error
}
