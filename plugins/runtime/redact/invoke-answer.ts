// Redacts an answer of the invoke protocol: JSON as a value, other text as text. Anything else is withheld.
import {
  type AnswerChunk,
  type AnswerStream,
  type Completed,
  failed,
  isRefusal,
  type Outcome,
} from '@svc/core'
import { readEvent, SseSplitter } from '@svc/core/http'
import { type OutputRule, redactJson, redactText, rulesFor } from './rule.js'

/** What is streamed because it is large is gathered up to this, and withheld beyond it. */
const maxGathered = 16 * 1024 * 1024
const maxEventBytes = 1024 * 1024
const eventType = /^[\w.-]{1,64}$/
const comment = Buffer.from(': withheld\n\n')

/** A hash or a name of the body that was. */
const ofTheOriginal: ReadonlySet<string> = new Set([
  'etag',
  'content-disposition',
  'content-length',
  'digest',
])

export function redactInvokeBody(
  answer: Completed,
  body: Uint8Array,
  given: readonly OutputRule[],
): Completed {
  const rules = rulesFor(given, body.byteLength)
  const headers = headersOfTheRest(answer)
  const { digest: _ofTheOriginal, ...rest } = answer
  const left = { ...rest, headers }
  if (body.byteLength === 0) return left
  const shown = shownBody(answer, body, rules)
  if (shown !== undefined) return { ...left, body: Buffer.from(shown) }
  const type = { 'content-type': 'application/json' }
  return { ...left, headers: { ...without(headers, 'content-encoding'), ...type }, body: withheld(rules) }
}

/** A stream that is no stream of events, gathered. */
export async function gatheredInvoke(
  answer: Completed,
  body: AnswerStream,
  rules: readonly OutputRule[],
): Promise<Outcome> {
  const pieces: Uint8Array[] = []
  let size = 0
  try {
    for await (const { bytes } of body) {
      size += bytes.byteLength
      if (size > maxGathered) break
      pieces.push(bytes)
    }
  } catch (fault) {
    if (isRefusal(fault)) throw fault
    const message = 'The upstream broke its answer off.'
    return failed('UPSTREAM_UNREACHABLE', message, { sent: answer.sent, cause: fault })
  }
  const isWhole = size <= maxGathered
  const headers = isWhole ? answer.headers : { 'content-type': 'application/octet-stream' }
  return redactInvokeBody({ ...answer, headers }, Buffer.concat(pieces), rules)
}

/**
 * Where only paths are to be hidden, each event is a value of its own. A pattern may run over the end of an event:
 * the events are then withheld, and one tells so at the end.
 */
export function redactInvokeEvents(
  answer: Completed,
  body: AnswerStream,
  rules: readonly OutputRule[],
): Completed {
  const isEachItsOwn = rules.every(({ isAll, detectors }) => !isAll && detectors.length === 0)
  const flow = isEachItsOwn ? eachEvent : noEvent
  const shown: AnswerStream = {
    ...(body.drainWhenAbandoned === undefined ? {} : { drainWhenAbandoned: body.drainWhenAbandoned }),
    [Symbol.asyncIterator]: () => flow(body, rules),
  }
  return { ...answer, headers: headersOfTheRest(answer), body: shown }
}

function headersOfTheRest({ headers }: Completed): Completed['headers'] {
  return Object.fromEntries(Object.entries(headers).filter(([name]) => !ofTheOriginal.has(name)))
}

async function* eachEvent(body: AnswerStream, rules: readonly OutputRule[]): AsyncGenerator<AnswerChunk> {
  const splitter = new SseSplitter(maxEventBytes)
  for await (const chunk of body) {
    for (const { bytes, isEvent } of splitter.push(chunk.bytes)) {
      yield { bytes: isEvent ? shownEvent(bytes, rules) : comment }
    }
  }
}

async function* noEvent(body: AnswerStream, rules: readonly OutputRule[]): AsyncGenerator<AnswerChunk> {
  for await (const _ of body) yield { bytes: comment }
  yield { bytes: Buffer.concat([Buffer.from('data: '), withheld(rules), Buffer.from('\n\n')]) }
}

function shownEvent(bytes: Uint8Array, rules: readonly OutputRule[]): Uint8Array {
  const { type, data } = readEvent(bytes)
  const shown = rules.reduce((left, rule) => redactText(left, rule), data)
  const lines = shown.split(/\r\n|\r|\n/).map((line) => `data: ${line}\n`)
  return Buffer.from(`${eventType.test(type) ? `event: ${type}\n` : ''}${lines.join('')}\n`)
}

/** Undefined for what cannot be redacted. */
function shownBody(answer: Completed, body: Uint8Array, rules: readonly OutputRule[]): string | undefined {
  const { 'content-type': header, 'content-encoding': coding = 'identity' } = answer.headers
  if (coding !== 'identity' || typeof header !== 'string') return undefined
  const type = (header.split(';', 1)[0] ?? '').trim().toLowerCase()
  const text = utf8(body)
  if (text === undefined) return undefined
  if (type === 'application/json' || type.endsWith('+json')) return redactedJson(text, rules)
  if (!type.startsWith('text/')) return undefined
  return rules.reduce((left, rule) => redactText(left, rule), text)
}

function redactedJson(text: string, rules: readonly OutputRule[]): string | undefined {
  try {
    const value: unknown = JSON.parse(text)
    return JSON.stringify(rules.reduce((left, rule) => redactJson(left, rule), value))
  } catch (fault) {
    if (fault instanceof SyntaxError) return undefined
    throw fault
  }
}

function utf8(bytes: Uint8Array): string | undefined {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch (fault) {
    if (fault instanceof TypeError) return undefined
    throw fault
  }
}

function withheld(rules: readonly OutputRule[]): Uint8Array {
  return Buffer.from(JSON.stringify(rules[0]?.replacement ?? ''))
}

function without(headers: Completed['headers'], name: string): Completed['headers'] {
  return Object.fromEntries(Object.entries(headers).filter(([one]) => one !== name))
}
