// Redacts responses of the invoke protocol: JSON as a value, other text as text. Any other content is replaced.
import {
  type Completed,
  failed,
  isRefusal,
  type Outcome,
  type ResponseChunk,
  type ResponseStream,
} from '@svc/core'
import { readEvent, SseSplitter } from '@svc/core/http'
import { isTooCostly } from '@svc/core/json'
import { type OutputRule, redactJson, redactText, rulesFor } from './rule.js'

/** A large streamed body is buffered up to this size and replaced beyond it. */
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

export function redactInvokeBody(
  response: Completed,
  body: Uint8Array,
  requested: readonly OutputRule[],
): Completed {
  const rules = rulesFor(requested, body.byteLength)
  const headers = keptHeaders(response)
  const { digest: _originalDigest, ...rest } = response
  const result = { ...rest, headers }
  if (body.byteLength === 0) return result
  const redacted = redactedBody(response, body, rules)
  if (redacted !== undefined) return { ...result, body: Buffer.from(redacted) }
  const { 'content-encoding': _originalEncoding, ...others } = headers
  return {
    ...result,
    headers: { ...others, 'content-type': 'application/json' },
    body: replacementBody(rules),
  }
}

/** Buffers a streamed body that is not an event stream, then redacts it. */
export async function redactInvokeStream(
  response: Completed,
  body: ResponseStream,
  rules: readonly OutputRule[],
): Promise<Outcome> {
  const chunks: Uint8Array[] = []
  let size = 0
  try {
    for await (const { bytes } of body) {
      size += bytes.byteLength
      if (size > maxBuffered) break
      chunks.push(bytes)
    }
  } catch (error) {
    if (isRefusal(error)) throw error
    const message = 'The upstream closed the connection before its response was complete.'
    return failed('UPSTREAM_UNREACHABLE', message, { cause: error })
  }
  const headers = size <= maxBuffered ? response.headers : { 'content-type': 'application/octet-stream' }
  return redactInvokeBody({ ...response, headers }, Buffer.concat(chunks), rules)
}

/**
 * With rules that have only paths, each event is redacted as a separate value. A match of a pattern may span several
 * events; then all events are removed, and one event with the replacement ends the stream.
 */
export function redactInvokeEvents(
  response: Completed,
  body: ResponseStream,
  rules: readonly OutputRule[],
): Completed {
  const hasOnlyPaths = rules.every(({ isAll, detectors }) => !isAll && detectors.length === 0)
  const redact = hasOnlyPaths ? redactEach : removeAll
  const redacted: ResponseStream = {
    ...(body.drainWhenAbandoned === undefined ? {} : { drainWhenAbandoned: body.drainWhenAbandoned }),
    [Symbol.asyncIterator]: () => redact(body, rules),
  }
  return { ...response, headers: keptHeaders(response), body: redacted }
}

function keptHeaders({ headers }: Completed): Completed['headers'] {
  return Object.fromEntries(Object.entries(headers).filter(([name]) => !originalBodyHeaders.has(name)))
}

async function* redactEach(
  body: ResponseStream,
  rules: readonly OutputRule[],
): AsyncGenerator<ResponseChunk> {
  const splitter = new SseSplitter(maxEventBytes)
  for await (const chunk of body) {
    for (const { bytes, isEvent } of splitter.push(chunk.bytes)) {
      yield { bytes: isEvent ? redactedEvent(bytes, rules) : removedEvent }
    }
  }
}

async function* removeAll(body: ResponseStream, rules: readonly OutputRule[]): AsyncGenerator<ResponseChunk> {
  for await (const _ of body) yield { bytes: removedEvent }
  yield { bytes: Buffer.concat([Buffer.from('data: '), replacementBody(rules), Buffer.from('\n\n')]) }
}

function redactedEvent(bytes: Uint8Array, rules: readonly OutputRule[]): Uint8Array {
  const { type, data } = readEvent(bytes)
  const redacted = redactTextBy(rules, data)
  const lines = redacted.split(/\r\n|\r|\n/).map((line) => `data: ${line}\n`)
  return Buffer.from(`${eventType.test(type) ? `event: ${type}\n` : ''}${lines.join('')}\n`)
}

/** The redacted text; undefined for content that cannot be redacted. */
function redactedBody(
  response: Completed,
  body: Uint8Array,
  rules: readonly OutputRule[],
): string | undefined {
  const { 'content-type': header, 'content-encoding': encoding = 'identity' } = response.headers
  if (encoding !== 'identity' || typeof header !== 'string') return undefined
  const type = (header.split(';', 1)[0] ?? '').trim().toLowerCase()
  const text = decodeUtf8(body)
  if (text === undefined) return undefined
  if (type === 'application/json' || type.endsWith('+json')) return redactedJson(text, rules)
  if (!type.startsWith('text/')) return undefined
  return redactTextBy(rules, text)
}

function redactTextBy(rules: readonly OutputRule[], text: string): string {
  return rules.reduce((result, rule) => redactText(result, rule), text)
}

function redactedJson(text: string, rules: readonly OutputRule[]): string | undefined {
  if (isTooCostly(text)) return undefined
  try {
    const value: unknown = JSON.parse(text)
    return JSON.stringify(rules.reduce((result, rule) => redactJson(result, rule), value))
  } catch (error) {
    if (error instanceof SyntaxError) return undefined
    throw error
  }
}

function decodeUtf8(bytes: Uint8Array): string | undefined {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch (error) {
    if (error instanceof TypeError) return undefined
    throw error
  }
}

function replacementBody(rules: readonly OutputRule[]): Uint8Array {
  return Buffer.from(JSON.stringify(rules[0]?.replacement ?? ''))
}
