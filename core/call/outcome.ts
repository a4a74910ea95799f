// The outcome of a call. Denials and failures are values, so that outer stages see them like responses. Whether the call
// was sent is not part of it: `call.sent` knows.
import type { Denial, ErrorCode, Refusal } from './errors.js'
import type { EscalationStatus } from './escalation.js'
import type { CallTrace } from './request.js'

/** Whether the call was sent: `unknown` when bytes may have been sent and no response came. */
export type Sent = 'no' | 'yes' | 'unknown'

export type ResponseHeaders = Record<string, string | string[]>

/** One chunk of a streamed response. */
export interface ResponseChunk {
  readonly bytes: Uint8Array
  /**
   * Present on the chunk with the response itself (on an MCP stream, the event with this call's JSON-RPC response): the
   * call settles before the chunk is sent.
   */
  readonly response?: {
    /** As `resultDigest` has it: SHA-256, hex, of the canonical `result`, or `bytes:` and that of the text; null without one. */
    readonly digest: string | null
    readonly error?: ErrorCode
    /** The JSON-RPC response without its framing, if it is the upstream's. */
    readonly content?: string
    /** The call that this response is for, if it is not the stream's call: that call settles. */
    readonly call?: { readonly trace: CallTrace }
    /** The bytes to send instead if the call could not be recorded. */
    instead(failed: Failed): Uint8Array
  }
}

export interface ResponseStream extends AsyncIterable<ResponseChunk> {
  /** Read to the end even after the caller has disconnected, so that the call still settles. */
  readonly drainWhenAbandoned?: boolean
}

export interface Completed {
  readonly kind: 'completed'
  readonly status: number
  readonly headers: ResponseHeaders
  readonly body: Uint8Array | ResponseStream
  /** Set if the response is, or over MCP contains, an error of the upstream. */
  readonly error?: ErrorCode
  /** The same of the recorded output; absent: SHA-256, hex, of the body. */
  readonly digest?: string | null
}

interface ConfirmationRequest {
  readonly message: string
  /** SHA-256, hex, of the message. */
  readonly sha256: string
}

export interface Denied {
  readonly kind: 'denied'
  readonly code: ErrorCode
  readonly message: string
  readonly denial?: Denial
  /** The escalation of the call. */
  readonly escalation?: { readonly id: string; readonly status: EscalationStatus }
  /** The questions that the person at the client has to confirm, as they are shown. */
  readonly confirmation?: ConfirmationRequest
  readonly headers?: ResponseHeaders
}

export interface Failed {
  readonly kind: 'failed'
  readonly code: ErrorCode
  readonly message: string
  readonly headers?: ResponseHeaders
  /** The HTTP status of the server, if it is why the call failed. */
  readonly upstreamStatus?: number
  /** Shown in the log, never to the caller. */
  readonly cause?: unknown
}

export type Outcome = Completed | Denied | Failed

export function denied(
  code: ErrorCode,
  message: string,
  more: Omit<Denied, 'kind' | 'code' | 'message'> = {},
): Denied {
  return { kind: 'denied', code, message, ...more }
}

export function failed(
  code: ErrorCode,
  message: string,
  more: Omit<Failed, 'kind' | 'code' | 'message'> = {},
): Failed {
  return { kind: 'failed', code, message, ...more }
}

/** An unreachable upstream and a caller that left are failures and not denials. */
export function unsentOutcome({ code, message, cause, denial }: Refusal): Denied | Failed {
  if (code !== 'UPSTREAM_UNREACHABLE' && code !== 'CANCELLED')
    return denied(code, message, denial === undefined ? {} : { denial })
  return failed(code, message, { cause })
}

export function isStream(body: Completed['body']): body is ResponseStream {
  return !(body instanceof Uint8Array)
}
