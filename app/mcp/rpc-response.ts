// Reads JSON-RPC messages of an upstream. Unlike a caller's message, they may have numbers that a double cannot represent,
// and their bytes are passed on unchanged if every parser reads them alike.
import { setImmediate as nextTurn } from 'node:timers/promises'
import { type ErrorCode, type Failed, failed, isRefusal, type MaybePromise, Refusal } from '@svc/core'
import { SseOverflow } from '@svc/core/http'
import {
  isJsonObject,
  JsonNumber,
  MAX_COST,
  measureJson,
  parseJsonText,
  readDigest,
  resultDigest,
  stringifyJson,
} from '@svc/core/json'
import { startWorker, Thread } from '@svc/core/thread'
import { smallBytes } from '../budget/process-budgets.js'
import { isUpstreamError } from '../upstream/response.js'
import type { DigestMethods } from './digest-worker.js'
import { hasConfusable, isRequestId, isSameId, memberNames } from './message.js'
import type { RequestId } from './protocol.js'

/** The upstream broke the protocol; the message may be shown to the caller. */
export class ProtocolViolation extends Error {
  override readonly name = 'ProtocolViolation'
}

export type Fields = Readonly<Record<string, unknown>>

/**
 * One JSON-RPC message; a large one in several turns of the event loop, so that others are served meanwhile. Throws or rejects
 * with `ProtocolViolation`, and with `Refusal` (`PAYLOAD_TOO_LARGE`) if it costs too much to read.
 */
export function readInTurns(text: string): MaybePromise<Fields> {
  if (text.length > smallBytes) return readLargeMessage(text)
  const measured = measureJson(text)
  if (measured === 'too costly') throw tooCostly()
  return parsedMessage(text, measured)
}

async function readLargeMessage(text: string): Promise<Fields> {
  await nextTurn()
  const measured = measureJson(text)
  if (measured === 'too costly') throw tooCostly()
  await nextTurn()
  const message = parsedMessage(text, measured)
  await nextTurn()
  return message
}

function parsedMessage(text: string, numbers?: 'plain' | 'other'): Fields {
  let value: unknown
  try {
    value = parseJsonText(text, numbers)
  } catch (cause) {
    throw new ProtocolViolation('The upstream sent something that is not JSON.', { cause })
  }
  if (Array.isArray(value)) throw new ProtocolViolation('The upstream sent a batch, which is not accepted.')
  if (!isJsonObject(value)) throw new ProtocolViolation('The upstream sent JSON that is not a message.')
  return checkServerMessage(value)
}

const ofMessages = memberNames('jsonrpc', 'id', 'method', 'params', 'result', 'error')
/** Members of results and params that the gateway judges, filters or replaces. */
const judged = memberNames(
  ...['tools', 'prompts', 'resources', 'resourceTemplates', 'instructions', 'content', 'structuredContent'],
  ...[
    'contents',
    'messages',
    'inputRequests',
    'requestState',
    'task',
    'tasks',
    'taskId',
    'data',
    'elicitations',
    '_meta',
  ],
)

/** Returns the message. Throws `ProtocolViolation`. */
export function checkServerMessage(value: Fields): Fields {
  // Some clients ignore the case of members, and would read what was not judged.
  const { result, params, error } = value
  const data = isJsonObject(error) ? error['data'] : undefined
  if (
    hasConfusable(value, ofMessages) ||
    [result, params, error, data].some((part) => isJsonObject(part) && hasConfusable(part, judged))
  )
    throw new ProtocolViolation(
      'The upstream sent a member that differs from one of the protocol only in its letters.',
    )
  // A client could read it as a response although it was not judged as one.
  if ('method' in value && ('result' in value || 'error' in value))
    throw new ProtocolViolation('The upstream sent a message that is both a request and a response.')
  if ('method' in value && typeof value['method'] !== 'string')
    throw new ProtocolViolation('The upstream sent a method that is not a text.')
  return value
}

const utf8 = new TextDecoder('utf-8', { fatal: true })

export function tooCostly(): Refusal {
  return new Refusal(
    'PAYLOAD_TOO_LARGE',
    "The upstream's response has too much, or too deep, structure to be read.",
  )
}

/** UTF-8 text of a message. Throws as `readInTurns` does. */
export function decodeUtf8(bytes: Uint8Array): string {
  if (bytes.byteLength > MAX_COST) throw tooCostly()
  try {
    return utf8.decode(bytes)
  } catch (cause) {
    throw new ProtocolViolation('The upstream sent text that is not UTF-8.', { cause })
  }
}

export function isResponse(message: Fields): boolean {
  return !('method' in message) && ('result' in message || 'error' in message)
}

/** A response as the client gets it, if it differs from what the server wrote. */
export interface ResponseChange {
  readonly message: Fields
  /** By the name of a member its new JSON, or undefined if it goes. */
  readonly members: Readonly<Record<string, string | undefined>>
}

/**
 * Returns the changes that make the response to `id` readable for a client that gets it by `shownId`, or undefined if it is. Some
 * servers write null for the member that is absent, or the id in another type, and some clients accept neither. Throws
 * `ProtocolViolation` for anything but a response to `id`.
 */
export function changeForClients(message: Fields, id: RequestId, shownId = id): ResponseChange | undefined {
  const { id: given, result, error } = message
  const hasBoth = 'result' in message && 'error' in message
  const absent = !hasBoth ? undefined : error === null ? 'error' : result === null ? 'result' : undefined
  if (!isResponse(message) || (hasBoth && absent === undefined))
    throw new ProtocolViolation('The upstream sent no JSON-RPC response.')
  // A server that could not read the id of a request responds with null (JSON-RPC 2.0 §5).
  const isForIt = isRequestId(given)
    ? idText(given) === idText(id)
    : (given === null || given === undefined) && absent !== 'error' && 'error' in message
  if (!isForIt) throw new ProtocolViolation('The upstream responded with the id of another request.')
  if (absent === undefined && isSameId(given, shownId)) return undefined
  const { [absent ?? '']: _, ...others } = message
  return {
    message: { ...others, id: shownId },
    members: { id: stringifyJson(shownId), ...(absent === undefined ? {} : { [absent]: undefined }) },
  }
}

/** Equal for equal numbers, and for a number and its text. */
function idText(id: RequestId): string {
  return id instanceof JsonNumber ? id.canonical : String(id)
}

/** The record's fields for a response. A tool's own failure (`isError`) counts as one of the upstream. */
export interface RecordedResult {
  /** As `resultDigest` has it; null for an error. */
  readonly digest: string | null
  readonly error?: ErrorCode
}

/** `text` is the response as JSON. */
export async function recordedResult(response: Fields, text: string): Promise<RecordedResult> {
  if (!('result' in response)) return { digest: null, error: 'UPSTREAM' }
  const { result } = response
  const digest = await digestOf(result, text)
  return isJsonObject(result) && result['isError'] === true ? { digest, error: 'UPSTREAM' } : { digest }
}

/** The digests of lists that were asked for before they are recorded. */
const digests = new WeakMap<object, string>()

/**
 * The digest that the record of a list has if nothing is removed from it; undefined if it has no canonical form, or if the list is
 * large and a part of the response `text`.
 */
export async function listDigest(list: Fields, text: string, isPart: boolean): Promise<string | undefined> {
  if (isPart && text.length > smallBytes) return undefined
  const digest = await digestOf(list, text)
  if (readDigest(digest).form === 'bytes') return undefined
  digests.set(list, digest)
  return digest
}

function digestOf(result: unknown, text: string): MaybePromise<string> {
  const known = isJsonObject(result) ? digests.get(result) : undefined
  if (known !== undefined) return known
  if (text.length <= smallBytes) return resultDigest(result, text)
  // The thread may have ended.
  return digestInThread(text).catch(() => resultDigest(result, text))
}

const interruptions: ReadonlySet<string> = new Set(['UPSTREAM_UNREACHABLE', 'DRAINING', 'CANCELLED'])

/** Whether the connection ended and nothing is wrong with the response: a client may resume the stream. */
export function isInterruption(error: unknown): boolean {
  return isRefusal(error) ? interruptions.has(error.code) : isUpstreamError(error)
}

/** The outcome of an error after the response's head. Rethrows internal errors. */
export function failureOf(error: unknown): Failed {
  if (isRefusal(error)) return failed(error.code, error.message, { cause: error.cause })
  if (error instanceof SseOverflow) {
    return failed('PAYLOAD_TOO_LARGE', `The response is too large: ${error.message}.`)
  }
  if (error instanceof ProtocolViolation || isUpstreamError(error)) {
    return failed('UPSTREAM_UNREACHABLE', error.message, { cause: error.cause ?? error })
  }
  throw error
}

// The thread that hashes large results: the canonical form of one would hold the event loop for longer than reading it. One
// for the process, started for the first of them, and ended when there has been none for a while.

const module = new URL('./digest-worker.js', import.meta.url)
const idleMs = 60_000

let thread: Thread<DigestMethods> | undefined
let running = 0
let idle: NodeJS.Timeout | undefined

/** The digest of the `result` in the JSON of a response. Rejects if the thread ends. */
export async function digestInThread(text: string): Promise<string> {
  clearTimeout(idle)
  thread ??= start()
  running++
  try {
    return await thread.call('digest', text)
  } finally {
    if (--running === 0) idle = setTimeout(end, idleMs).unref()
  }
}

function start(): Thread<DigestMethods> {
  const started = new Thread<DigestMethods>(startWorker(module, {}), {}, () => {
    if (thread === started) thread = undefined
  })
  return started
}

function end(): void {
  void thread?.close()
  thread = undefined
}
