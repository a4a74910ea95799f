// Rewrites responses of the invoke protocol: JSON as a value, other text as text.
import type { Call } from '../call/call.js'
import { isRefusal } from '../call/errors.js'
import type { MaybePromise } from '../call/maybe-promise.js'
import {
  type Completed,
  failed,
  type Outcome,
  type ResponseChunk,
  type ResponseStream,
} from '../call/outcome.js'
import { readEvent, SseSplitter } from '../http/index.js'
import { hasDuplicateMembers, measureJson, parseJsonText, sha256Hex, stringifyJson } from '../json/index.js'
import { keepReceived } from './received.js'
import type { ResponseRewriter } from './rewriter.js'

/** A large streamed body is buffered up to this size; beyond it, it cannot be read. */
const maxBuffered = 16 * 1024 * 1024
const maxEventBytes = 1024 * 1024
const eventType = /^[\w.-]{1,64}$/
const removedEvent = Buffer.from(': withheld\n\n')

/** Headers that describe the original body. */
const originalBodyHeaders: ReadonlySet<string> = new Set([
  'etag',
  'content-disposition',
  'content-length',
  'digest',
])

export async function rewriteBody(
  call: Call,
  response: Completed,
  body: Uint8Array,
  rewriter: ResponseRewriter,
): Promise<Completed> {
  if (body.byteLength === 0) return changed(response, body)
  const read = bodyText(response, body)
  const rewritten = read && (await rewriteText(read, rewriter))
  if (read !== undefined && rewritten === read.text) return response
  const isPassed = rewriter.unreadable === undefined && !isCoded(response)
  const instead = rewritten === undefined && !isPassed ? await insteadOfUnread(rewriter) : undefined
  if (rewritten === undefined && instead === undefined) return response
  keepReceived(call, response.digest === undefined ? sha256Hex(body) : response.digest)
  return rewritten === undefined || read?.form === 'other'
    ? replaced(response, rewritten ?? instead ?? '')
    : changed(inUtf8(response), Buffer.from(rewritten))
}

function insteadOfUnread(rewriter: ResponseRewriter): MaybePromise<string | undefined> {
  return rewriter.unread === undefined ? rewriter.unreadable : rewriter.unread()
}

function inUtf8(response: Completed): Completed {
  const { type, charset } = contentType(response)
  if (charset === 'utf-8') return response
  return { ...response, headers: { ...response.headers, 'content-type': `${type}; charset=utf-8` } }
}

function changed(response: Completed, body: Uint8Array): Completed {
  const { digest: _originalDigest, ...rest } = response
  return { ...rest, headers: keptHeaders(response), body }
}

function replaced(response: Completed, replacement: string): Completed {
  const { headers, ...rest } = changed(response, Buffer.from(stringifyJson(replacement)))
  const { 'content-encoding': _originalEncoding, ...others } = headers
  return { ...rest, headers: { ...others, 'content-type': 'application/json' } }
}

/** Buffers a streamed body that is not an event stream, then rewrites it. */
export async function rewriteBuffered(
  call: Call,
  response: Completed,
  body: ResponseStream,
  rewriter: ResponseRewriter,
): Promise<Outcome> {
  const chunks: Uint8Array[] = []
  let size = 0
  const iterator = body[Symbol.asyncIterator]()
  try {
    for (let next = await iterator.next(); next.done !== true; next = await iterator.next()) {
      chunks.push(next.value.bytes)
      size += next.value.bytes.byteLength
      if (size > maxBuffered) return await largeResponse(response, body, { chunks, iterator }, rewriter)
    }
  } catch (error) {
    if (isRefusal(error)) throw error
    const message = 'The upstream closed the connection before its response was complete.'
    return failed('UPSTREAM_UNREACHABLE', message, { cause: error })
  }
  return rewriteBody(call, response, Buffer.concat(chunks), rewriter)
}

/** A body of which the first part was read. */
interface BegunBody {
  readonly chunks: readonly Uint8Array[]
  readonly iterator: AsyncIterator<ResponseChunk>
}

async function largeResponse(
  response: Completed,
  body: ResponseStream,
  { chunks, iterator }: BegunBody,
  rewriter: ResponseRewriter,
): Promise<Completed> {
  const isPassed =
    rewriter.unreadable === undefined &&
    isMedium(response) &&
    bodyText(response, Buffer.concat(chunks)) === undefined
  const replacement = isPassed ? undefined : await insteadOfUnread(rewriter)
  if (replacement !== undefined) {
    await iterator.return?.()
    return replaced(response, replacement)
  }
  const whole: ResponseStream = {
    ...(body.drainWhenAbandoned === undefined ? {} : { drainWhenAbandoned: body.drainWhenAbandoned }),
    async *[Symbol.asyncIterator]() {
      for (const bytes of chunks) yield { bytes }
      yield* { [Symbol.asyncIterator]: () => iterator }
    },
  }
  return { ...response, body: whole }
}

/** Each event is rewritten as a separate value, unless what is sought may span several. */
export function rewriteEvents(
  response: Completed,
  body: ResponseStream,
  rewriter: ResponseRewriter,
): Completed {
  const rewrite = rewriter.spansEvents ? removeAll : rewriteEach
  const rewritten: ResponseStream = {
    ...(body.drainWhenAbandoned === undefined ? {} : { drainWhenAbandoned: body.drainWhenAbandoned }),
    [Symbol.asyncIterator]: () => rewrite(body, rewriter),
  }
  return { ...response, headers: keptHeaders(response), body: rewritten }
}

function keptHeaders({ headers }: Completed): Completed['headers'] {
  return Object.fromEntries(Object.entries(headers).filter(([name]) => !originalBodyHeaders.has(name)))
}

async function* rewriteEach(body: ResponseStream, rewriter: ResponseRewriter): AsyncGenerator<ResponseChunk> {
  const splitter = new SseSplitter(maxEventBytes)
  let before = ''
  for await (const chunk of body) {
    for (const { bytes, isEvent } of splitter.push(chunk.bytes)) {
      if (!isEvent) {
        yield { bytes: (await isUnchanged(bytes, rewriter)) ? bytes : removedEvent }
        continue
      }
      const shown = await rewrittenEvent(bytes, before, rewriter)
      yield { bytes: shown }
      const { context = 0 } = rewriter
      before = shown === bytes && context > 0 ? `${before}${readEvent(bytes).data}\n`.slice(-context) : ''
    }
  }
}

/** Whether bytes between events, line ends and comments, stay as they are. */
async function isUnchanged(bytes: Uint8Array, rewriter: ResponseRewriter): Promise<boolean> {
  if (rewriter.unreadable !== undefined) return false
  const text = Buffer.from(bytes).toString()
  return text.trim() === '' || (await rewriter.text(text)) === text
}

async function* removeAll(body: ResponseStream, rewriter: ResponseRewriter): AsyncGenerator<ResponseChunk> {
  for await (const _ of body) yield { bytes: removedEvent }
  yield { bytes: Buffer.from(`data: ${stringifyJson(rewriter.unreadable ?? '')}\n\n`) }
}

/** A client that reads the stream as a text sees all lines of an event together with the events before it. */
async function rewrittenEvent(
  bytes: Uint8Array,
  before: string,
  rewriter: ResponseRewriter,
): Promise<Uint8Array> {
  const { type, data } = readEvent(bytes)
  const rewritten = await rewriter.text(data)
  if (rewritten === data) {
    const others = Buffer.from(bytes)
      .toString()
      .replace(/^data:.*$/gm, '')
      .trim()
    const joined = before === '' ? [] : [`${before}${data}`, `${before}${data}`.replaceAll('\n', '')]
    for (const text of [others, ...joined])
      if (text !== '' && (await rewriter.text(text)) !== text) return removedEvent
    return bytes
  }
  const lines = rewritten.split(/\r\n|\r|\n/).map((line) => `data: ${line}\n`)
  return Buffer.from(`${eventType.test(type) ? `event: ${type}\n` : ''}${lines.join('')}\n`)
}

/** Undefined for content that cannot be rewritten. */
async function rewriteText(
  { text, form }: BodyText,
  rewriter: ResponseRewriter,
): Promise<string | undefined> {
  const measured = form === 'json' ? measureJson(text) : 'too costly'
  if (measured !== 'too costly') {
    try {
      const value: unknown = parseJsonText(text, measured)
      const rewritten = await rewriter.json(value, text.length)
      // If several members have one name, the rewriter has seen one of them.
      return rewritten === value && !hasDuplicateMembers(text, value) ? text : stringifyJson(rewritten)
    } catch (error) {
      if (!(error instanceof SyntaxError)) throw error
    }
  }
  return form === 'text' || rewriter.unreadable === undefined ? rewriter.text(text) : undefined
}

/** The text that a reader can find in a plain body, whatever its headers say. */
interface BodyText {
  readonly text: string
  /** The declared kind, if the bytes are of it; `other` may be text, such as in another charset. */
  readonly form: 'json' | 'text' | 'other'
}

/** Undefined for a content coding, and with a medium's type for bytes that are not text. */
function bodyText(response: Completed, body: Uint8Array): BodyText | undefined {
  if (isCoded(response)) return undefined
  const { type, charset } = contentType(response)
  const text = decoded(body, charset)
  if (text === undefined) {
    if (isMedium(response)) return undefined
    return { text: Buffer.from(body).toString().replaceAll('\0', ''), form: 'other' }
  }
  if (type === 'application/json' || type.endsWith('+json')) return { text, form: 'json' }
  return { text, form: type.startsWith('text/') ? 'text' : 'other' }
}

/** Whether the body has a content coding, which was not asked for. */
function isCoded({ headers }: Completed): boolean {
  const { 'content-encoding': coding = 'identity' } = headers
  return String(coding).trim().toLowerCase() !== 'identity'
}

/** Whether the body is declared as an image, sound, film or font. */
function isMedium(response: Completed): boolean {
  return /^(?:image|audio|video|font)\/(?!svg)/.test(contentType(response).type)
}

function contentType({ headers }: Completed): { readonly type: string; readonly charset: string } {
  const [type = '', ...params] = String(headers['content-type'] ?? '').split(';')
  const [charset = 'utf-8'] = params.flatMap((one) => /^\s*charset\s*=\s*"?([^"\s]*)/i.exec(one)?.[1] ?? [])
  return { type: type.trim().toLowerCase(), charset: charset.toLowerCase() }
}

/** Undefined for an unknown charset, bytes that it has not, and text with NULs, as UTF-16 has in other charsets. */
function decoded(bytes: Uint8Array, charset: string): string | undefined {
  try {
    const text = new TextDecoder(charset, { fatal: true }).decode(bytes)
    return text.includes('\0') ? undefined : text
  } catch (error) {
    if (error instanceof TypeError || error instanceof RangeError) return undefined
    throw error
  }
}
