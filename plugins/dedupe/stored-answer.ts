// An answer as the store keeps it: a line of JSON, then the body's bytes.
import { type AnswerHeaders, type Completed, type ErrorCode, errorTable } from '@svc/core'

export interface StoredAnswer {
  readonly status: number
  readonly headers: AnswerHeaders
  /** SHA-256, hex, of the output in audit records, where that is not the body. */
  readonly digest: string | null
  readonly error: ErrorCode | null
  readonly body: Uint8Array
}

const LINE_FEED = 10

/** They describe the moment of the first answer, not the answer. */
const transientHeaders: ReadonlySet<string> = new Set([
  'x-rate-remaining',
  'x-quota-remaining',
  'x-quota-reset-at',
  'ratelimit',
  'ratelimit-policy',
  'retry-after',
])

/** The headers of an answer that its replay repeats. */
export function replayableHeaders(headers: AnswerHeaders): AnswerHeaders {
  return Object.fromEntries(Object.entries(headers).filter(([name]) => !transientHeaders.has(name)))
}

export function encodeAnswer({ body, ...head }: StoredAnswer): Uint8Array {
  return Buffer.concat([Buffer.from(`${JSON.stringify(head)}\n`), body])
}

/** @throws {Error} when the bytes are no answer */
export function decodeAnswer(bytes: Uint8Array): StoredAnswer {
  const end = bytes.indexOf(LINE_FEED)
  const head: unknown = JSON.parse(Buffer.from(bytes.subarray(0, Math.max(0, end))).toString() || 'null')
  if (!isHead(head)) throw new Error('the stored answer cannot be read')
  return { ...head, body: bytes.subarray(end + 1) }
}

/** The outcome of a call that repeats the stored one; `body` takes the place of the stored body. */
export function replayOf(stored: StoredAnswer, body: Uint8Array = stored.body): Completed {
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

function isHead(value: unknown): value is Omit<StoredAnswer, 'body'> {
  if (typeof value !== 'object' || value === null) return false
  const { status, headers, digest, error } = value as Partial<Record<keyof StoredAnswer, unknown>>
  return (
    Number.isInteger(status) &&
    typeof headers === 'object' &&
    headers !== null &&
    Object.values(headers).every(isHeader) &&
    (digest === null || typeof digest === 'string') &&
    (error === null || (typeof error === 'string' && error in errorTable))
  )
}

function isHeader(value: unknown): boolean {
  return typeof value === 'string' || (Array.isArray(value) && value.every((one) => typeof one === 'string'))
}
