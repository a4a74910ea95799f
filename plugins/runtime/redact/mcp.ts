// Redacts responses of the MCP endpoint. A stream keeps only the event with the JSON-RPC response, redacted: progress, log
// messages and requests of the server may contain what is redacted in the response.
import {
  type CallRequest,
  type Completed,
  type ErrorCode,
  failed,
  type ResponseChunk,
  type ResponseStream,
} from '@svc/core'
import { eventOf, readEvent, SseSplitter } from '@svc/core/http'
import { canonicalize, parseJsonObject, sha256Hex } from '@svc/core/json'
import { redactError, redactResult } from './mcp-result.js'
import { type OutputRule, rulesFor } from './rule.js'

/** Larger than any event that the MCP endpoint accepts. */
const maxEventBytes = 256 * 1024 * 1024

/** A comment in place of a removed event keeps the connection alive. */
const removedEvent = Buffer.from(': withheld\n\n')

export function redactMcpBody(
  response: Completed,
  body: Uint8Array,
  request: CallRequest,
  rules: readonly OutputRule[],
): Completed {
  if (body.byteLength === 0) return response
  const redacted = redactResponse(Buffer.from(body).toString('utf8'), request, rules)
  if (redacted === undefined) return { ...response, body: new Uint8Array(), digest: null }
  const error = response.error ?? redacted.error
  return {
    ...response,
    body: Buffer.from(redacted.text),
    digest: response.status >= 400 ? null : redacted.digest,
    ...(error === undefined ? {} : { error }),
  }
}

export class RedactedMcpStream implements ResponseStream {
  readonly drainWhenAbandoned: boolean
  #body: ResponseStream
  #request: CallRequest
  #rules: readonly OutputRule[]
  #splitter = new SseSplitter(maxEventBytes)

  constructor(body: ResponseStream, request: CallRequest, rules: readonly OutputRule[]) {
    this.drainWhenAbandoned = body.drainWhenAbandoned === true
    this.#body = body
    this.#request = request
    this.#rules = rules
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<ResponseChunk> {
    for await (const chunk of this.#body) {
      if (chunk.response !== undefined) yield this.#redactWhole(chunk.bytes, chunk.response)
      else for (const { bytes } of this.#splitter.push(chunk.bytes)) yield { bytes: this.#redactEvent(bytes) }
    }
  }

  #redactWhole(bytes: Uint8Array, response: NonNullable<ResponseChunk['response']>): ResponseChunk {
    const redacted = this.#redactResponse(bytes)
    if (redacted !== undefined) {
      // A stored response must hold what the caller received.
      const content = redacted.text
      return { bytes: eventOf(content), response: { ...response, digest: redacted.digest, content } }
    }
    // The stream ended early. Without event ids the client cannot resume it, so it gets an error.
    const outcome = failed('UPSTREAM_UNREACHABLE', 'The upstream ended its stream without a response.')
    return { bytes: response.instead(outcome), response: { ...response, digest: null } }
  }

  #redactEvent(bytes: Uint8Array): Uint8Array {
    const redacted = this.#redactResponse(bytes)
    return redacted === undefined ? removedEvent : eventOf(redacted.text)
  }

  /** Events lose their ids, because with an id a client could resume the stream unredacted. */
  #redactResponse(bytes: Uint8Array): ReturnType<typeof redactResponse> {
    const { data } = readEvent(bytes)
    return data === '' ? undefined : redactResponse(data, this.#request, this.#rules)
  }
}

interface RedactedResponse {
  readonly text: string
  /** SHA-256, hex, of the canonical result; null for an error. */
  readonly digest: string | null
  readonly error?: ErrorCode
}

/** Undefined if `text` is not a JSON-RPC response; the caller must then remove it. */
function redactResponse(
  text: string,
  { method }: CallRequest,
  requested: readonly OutputRule[],
): RedactedResponse | undefined {
  const rules = rulesFor(requested, text.length)
  const message = parseJsonObject(text)
  if (message === undefined || 'method' in message) return undefined
  const { id = null, result, error } = message
  if (result !== undefined) {
    const redacted = rules.reduce<unknown>((value, rule) => redactResult(value, method, rule), result)
    const isError =
      typeof redacted === 'object' && redacted !== null && 'isError' in redacted && redacted.isError === true
    return {
      text: JSON.stringify({ jsonrpc: '2.0', id, result: redacted }),
      digest: sha256Hex(canonicalize(redacted)),
      ...(isError ? { error: 'UPSTREAM' as const } : {}),
    }
  }
  if (error === undefined) return undefined
  const redacted = rules.reduce<unknown>((value, rule) => redactError(value, rule), error)
  return { text: JSON.stringify({ jsonrpc: '2.0', id, error: redacted }), digest: null, error: 'UPSTREAM' }
}
