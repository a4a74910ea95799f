// An answer as it is kept under its key: a line of JSON, then the body's bytes.
import { type AnswerHeaders, type Completed, type ErrorCode, errorTable } from '@svc/core'

export interface KeptAnswer {
  readonly status: number
  readonly headers: AnswerHeaders
  /** SHA-256, hex, of what records call the output, where that is not the body. */
  readonly digest: string | null
  readonly error: ErrorCode | null
  readonly body: Uint8Array
}

const LINE_FEED = 10

/** They speak of the moment of the first answer, not of the answer. */
const passing: ReadonlySet<string> = new Set([
  'x-rate-remaining',
  'x-quota-remaining',
  'x-quota-reset-at',
  'ratelimit',
  'ratelimit-policy',
  'retry-after',
])

/** Headers of an answer that a replay has too. */
export function lasting(headers: AnswerHeaders): AnswerHeaders {
  return Object.fromEntries(Object.entries(headers).filter(([name]) => !passing.has(name)))
}

export function encodeAnswer({ body, ...head }: KeptAnswer): Uint8Array {
  return Buffer.concat([Buffer.from(`${JSON.stringify(head)}\n`), body])
}

/** @throws {Error} when the bytes are no answer */
export function decodeAnswer(bytes: Uint8Array): KeptAnswer {
  const end = bytes.indexOf(LINE_FEED)
  const head: unknown = JSON.parse(Buffer.from(bytes.subarray(0, Math.max(0, end))).toString() || 'null')
  if (!isHead(head)) throw new Error('the stored answer is not ours')
  return { ...head, body: bytes.subarray(end + 1) }
}

/** The outcome of a call that was answered before; `body` where it is not the kept one. */
export function replayOf(kept: KeptAnswer, body: Uint8Array = kept.body): Completed {
  const { status, headers, digest, error } = kept
  return {
    kind: 'completed',
    // Not by this call.
    sent: 'no',
    status,
    headers: { ...headers, 'x-dedupe': 'replay' },
    body,
    ...(digest === null ? {} : { digest }),
    ...(error === null ? {} : { error }),
  }
}

function isHead(value: unknown): value is Omit<KeptAnswer, 'body'> {
  if (typeof value !== 'object' || value === null) return false
  const { status, headers, digest, error } = value as Partial<Record<keyof KeptAnswer, unknown>>
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
