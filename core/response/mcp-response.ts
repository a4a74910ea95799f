// Rewrites responses of the MCP endpoint, and what the server sends beside them on the stream of a call.
import type { Call } from '../call/call.js'
import type { ErrorCode } from '../call/errors.js'
import { type Completed, failed, type ResponseChunk, type ResponseStream } from '../call/outcome.js'
import type { CallRequest } from '../call/request.js'
import { eventOf, readEvent, SseSplitter } from '../http/index.js'
import { canonicalize, isJsonObject, parseJsonObject, sha256Hex } from '../json/index.js'
import { keepReceived } from './received.js'
import type { ResponseRewriter } from './rewriter.js'

/** Larger than any event that the MCP endpoint accepts. */
const maxEventBytes = 256 * 1024 * 1024

/** A comment in place of a removed event keeps the connection alive. */
const removedEvent = Buffer.from(': withheld\n\n')

export async function rewriteMcpBody(
  call: Call,
  response: Completed,
  body: Uint8Array,
  request: CallRequest,
  rewriter: ResponseRewriter,
): Promise<Completed> {
  if (body.byteLength === 0) return response
  const text = new TextDecoder().decode(body)
  const rewritten = await rewrittenResponse(text, request, rewriter)
  if (rewritten === undefined) {
    if (rewriter.unreadable !== undefined) return { ...response, body: new Uint8Array(), digest: null }
    const shown = await rewriter.text(text)
    return shown === text ? response : { ...response, body: Buffer.from(shown), digest: null }
  }
  if (rewritten.text === text) return response
  keepReceived(call, response.status >= 400 ? null : rewritten.received)
  const error = response.error ?? rewritten.error
  return {
    ...response,
    body: Buffer.from(rewritten.text),
    digest: response.status >= 400 ? null : rewritten.digest,
    ...(error === undefined ? {} : { error }),
  }
}

export class RewrittenMcpStream implements ResponseStream {
  readonly drainWhenAbandoned: boolean
  #call: Call
  #body: ResponseStream
  #request: CallRequest
  #rewriter: ResponseRewriter
  #splitter = new SseSplitter(maxEventBytes)

  constructor(call: Call, body: ResponseStream, request: CallRequest, rewriter: ResponseRewriter) {
    this.drainWhenAbandoned = body.drainWhenAbandoned === true
    this.#call = call
    this.#body = body
    this.#request = request
    this.#rewriter = rewriter
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<ResponseChunk> {
    for await (const chunk of this.#body) {
      if (chunk.response !== undefined) yield await this.#withResponse(chunk, chunk.response)
      else
        for (const { bytes, isEvent } of this.#splitter.push(chunk.bytes))
          yield { bytes: isEvent ? await this.#event(bytes) : this.#unread(bytes) }
    }
  }

  async #withResponse(
    chunk: ResponseChunk,
    response: NonNullable<ResponseChunk['response']>,
  ): Promise<ResponseChunk> {
    const { data } = readEvent(chunk.bytes)
    const rewritten = data === '' ? undefined : await rewrittenResponse(data, this.#request, this.#rewriter)
    if (rewritten?.text === data || (rewritten === undefined && this.#rewriter.unreadable === undefined))
      return chunk
    if (rewritten !== undefined) {
      keepReceived(this.#call, rewritten.received)
      // A stored response must hold what the caller received.
      const { text: content, digest } = rewritten
      return { bytes: eventOf(content), response: { ...response, digest, content } }
    }
    // The stream ended early. Without event ids the client cannot resume it, so it gets an error.
    const outcome = failed('UPSTREAM_UNREACHABLE', 'The upstream ended its stream without a response.')
    return { bytes: response.instead(outcome), response: { ...response, digest: null } }
  }

  /** A changed event loses its id, because with an id a client could resume the stream unchanged. */
  async #event(bytes: Uint8Array): Promise<Uint8Array> {
    const { data } = readEvent(bytes)
    if (data === '') return this.#unread(bytes)
    const message = parseJsonObject(data)
    if (message !== undefined && 'method' in message) {
      const shown = await this.#rewriter.message(message)
      if (shown === undefined) return removedEvent
      return shown === message ? bytes : eventOf(JSON.stringify(shown))
    }
    const rewritten = await rewrittenResponse(data, this.#request, this.#rewriter)
    if (rewritten === undefined) return this.#unread(bytes)
    return rewritten.text === data ? bytes : eventOf(rewritten.text)
  }

  #unread(bytes: Uint8Array): Uint8Array {
    return this.#rewriter.unreadable === undefined ? bytes : removedEvent
  }
}

interface RewrittenResponse {
  readonly text: string
  /** SHA-256, hex, of the canonical result; null for an error. */
  readonly digest: string | null
  /** The same of the response before. */
  readonly received: string | null
  readonly error?: ErrorCode
}

/** Undefined if `text` is not a JSON-RPC response; the caller must then remove it. The text is the same if nothing changes. */
async function rewrittenResponse(
  text: string,
  { method }: CallRequest,
  rewriter: ResponseRewriter,
): Promise<RewrittenResponse | undefined> {
  const message = parseJsonObject(text)
  if (message === undefined || 'method' in message) return undefined
  const { jsonrpc: _version, id = null, result, error, ...others } = message
  // Members that no revision of MCP has are not passed on.
  const isWhole = Object.keys(others).length === 0 && !(result !== undefined && error !== undefined)
  if (result !== undefined) {
    const shown = await rewriter.result(result, method, text.length)
    if (shown === result && isWhole) return { text, digest: null, received: null }
    const digest = sha256Hex(canonicalize(shown))
    const isError = isJsonObject(shown) && shown['isError'] === true
    return {
      text: JSON.stringify({ jsonrpc: '2.0', id, result: shown }),
      digest,
      received: shown === result ? digest : sha256Hex(canonicalize(result)),
      ...(isError ? { error: 'UPSTREAM' as const } : {}),
    }
  }
  if (error === undefined) return undefined
  const shown = await rewriter.error(error, text.length)
  const changed = shown === error && isWhole ? text : JSON.stringify({ jsonrpc: '2.0', id, error: shown })
  return { text: changed, digest: null, received: null, error: 'UPSTREAM' }
}
