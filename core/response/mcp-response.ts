// Rewrites responses of the MCP endpoint, and what the server sends beside them on the stream of a call.
import type { Call } from '../call/call.js'
import type { ErrorCode } from '../call/errors.js'
import { type Completed, failed, type ResponseChunk, type ResponseStream } from '../call/outcome.js'
import type { CallRequest } from '../call/request.js'
import { eventOf, readEvent, SseSplitter } from '../http/index.js'
import { isJsonObject, parseExactObject, resultDigest, stringifyJson } from '../json/index.js'
import { keepReceived } from './received.js'
import type { ResponseRewriter } from './rewriter.js'
import { keepShown, shownIn } from './shown.js'

type Fields = Readonly<Record<string, unknown>>

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
  const { text, message } = received(body, () => new TextDecoder().decode(body))
  const rewritten = await rewrittenResponse(text, message, request, rewriter)
  if (rewritten === undefined) {
    if (rewriter.unreadable !== undefined) return { ...response, body: new Uint8Array(), digest: null }
    const shown = await rewriter.text(text)
    return shown === text ? response : { ...response, body: Buffer.from(shown), digest: null }
  }
  if (rewritten.text === text) return response
  const { digest, receivedDigest, error: ofResult } = recordedOf(rewritten)
  const error = response.error ?? ofResult
  keepReceived(call, response.status >= 400 ? null : receivedDigest)
  return {
    ...response,
    body: shownBytes(Buffer.from(rewritten.text), rewritten),
    digest: response.status >= 400 ? null : digest,
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
    const { text, message } = received(chunk.bytes, () => readEvent(chunk.bytes).data)
    const rewritten = await rewrittenResponse(text, message, this.#request, this.#rewriter)
    if (rewritten?.text === text || (rewritten === undefined && this.#rewriter.unreadable === undefined))
      return chunk
    if (rewritten !== undefined) {
      const { digest, receivedDigest } = recordedOf(rewritten)
      keepReceived(this.#call, receivedDigest)
      // A stored response must hold what the caller received.
      const { text: content } = rewritten
      return {
        bytes: shownBytes(eventOf(content), rewritten),
        response: { ...response, digest, content },
      }
    }
    // The stream ended early. Without event ids the client cannot resume it, so it gets an error.
    const outcome = failed('UPSTREAM_UNREACHABLE', 'The upstream ended its stream without a response.')
    return { bytes: response.instead(outcome), response: { ...response, digest: null } }
  }

  /** A changed event loses its id, because with an id a client could resume the stream unchanged. */
  async #event(bytes: Uint8Array): Promise<Uint8Array> {
    const { text, message } = received(bytes, () => readEvent(bytes).data)
    if (text === '') return this.#unread(bytes)
    if (message !== undefined && 'method' in message) {
      const shown = await this.#rewriter.message(message)
      if (shown === undefined) return removedEvent
      return shown === message ? bytes : eventOf(stringifyJson(shown))
    }
    const rewritten = await rewrittenResponse(text, message, this.#request, this.#rewriter)
    if (rewritten === undefined) return this.#unread(bytes)
    return rewritten.text === text ? bytes : shownBytes(eventOf(rewritten.text), rewritten)
  }

  #unread(bytes: Uint8Array): Uint8Array {
    return this.#rewriter.unreadable === undefined ? bytes : removedEvent
  }
}

interface RewrittenResponse {
  readonly text: string
  readonly message: Fields
  /** The message before, and its text. */
  readonly received: Fields
  readonly receivedText: string
}

/** The message in the bytes; they are read only if the gateway has not written them. */
function received(
  bytes: Uint8Array,
  read: () => string,
): { readonly text: string; readonly message: Fields | undefined } {
  const known = shownIn(bytes)
  if (known !== undefined) return known
  const text = read()
  return { text, message: parseExactObject(text) }
}

function shownBytes(bytes: Uint8Array, { text, message }: RewrittenResponse): Uint8Array {
  keepShown(bytes, { text, message })
  return bytes
}

/** Undefined if `message` is not a JSON-RPC response; the caller must then remove it. The text is the same if nothing changes. */
async function rewrittenResponse(
  text: string,
  message: Fields | undefined,
  { method }: CallRequest,
  rewriter: ResponseRewriter,
): Promise<RewrittenResponse | undefined> {
  if (message === undefined || 'method' in message) return undefined
  const { jsonrpc: _version, id = null, result, error, ...others } = message
  const isResult = result !== undefined
  // Members that no revision of MCP has are not passed on.
  const isWhole = Object.keys(others).length === 0 && !(isResult && error !== undefined)
  if (!isResult && error === undefined) return undefined
  const shown = isResult
    ? await rewriter.result(result, method, text.length)
    : await rewriter.error(error, text.length)
  if (isWhole && shown === (isResult ? result : error))
    return { text, message, received: message, receivedText: text }
  const rewritten = { jsonrpc: '2.0', id, ...(isResult ? { result: shown } : { error: shown }) }
  return { text: stringifyJson(rewritten), message: rewritten, received: message, receivedText: text }
}

interface RecordedResponse {
  /** As `resultDigest` has it; null for an error. */
  readonly digest: string | null
  /** The same of the response before. */
  readonly receivedDigest: string | null
  readonly error?: ErrorCode
}

function recordedOf({ message, text, received, receivedText }: RewrittenResponse): RecordedResponse {
  const { result } = message
  if (result === undefined) return { digest: null, receivedDigest: null, error: 'UPSTREAM' }
  const isError = isJsonObject(result) && result['isError'] === true
  return {
    digest: resultDigest(result, text),
    receivedDigest: resultDigest(received['result'], receivedText),
    ...(isError ? { error: 'UPSTREAM' } : {}),
  }
}
