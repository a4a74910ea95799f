// Redaction of personal data in records, logs and spans, by pseudonyms. A stage sets the redactor in a slot of the call;
// code that writes about the call uses it.
import { JsonNumber } from '../json/text.js'
import type { Call } from './call.js'
import { slot } from './slot.js'

export interface Redactor {
  /** The pseudonym of a user, subject or client: the same for the same name, and not reversible without the key. */
  pseudonym(name: string): string
  /** The text with pseudonyms in place of the caller's names and of other personal data. */
  text(text: string): string
}

/** Set by the stage directly inside audit; read by code that writes about the call. */
export const redactor = slot<Redactor>('redactor')

/** A JSON value with every string redacted, member names included. */
export function redactedValue<T>(value: T, redactor: Redactor): T
export function redactedValue(value: unknown, redactor: Redactor): unknown {
  if (typeof value === 'string') return redactor.text(value)
  if (typeof value !== 'object' || value === null || value instanceof JsonNumber) return value
  if (Array.isArray(value)) return value.map((item: unknown) => redactedValue(item, redactor))
  const entries = Object.entries(value).map(([key, item]) => [
    redactor.text(key),
    redactedValue(item, redactor),
  ])
  return Object.fromEntries(entries)
}

/** An error for the log, with message, stack and causes redacted; any other value as text. */
export function redactedError(error: unknown, redactor: Redactor): unknown {
  if (error === undefined) return undefined
  if (!(error instanceof Error)) return redactor.text(String(error))
  const cause = error.cause === undefined ? {} : { cause: redactedError(error.cause, redactor) }
  const shown = new Error(redactor.text(error.message), cause)
  shown.name = error.name
  if (error.stack !== undefined) shown.stack = redactor.text(error.stack)
  return 'code' in error && typeof error.code === 'string'
    ? Object.assign(shown, { code: error.code })
    : shown
}

/** The line of the log about an error of a call: the error, redacted as records are, and the ids of its record. */
export function errorFields(call: Call, error: unknown): { err: unknown; trace_id: string; span_id: string } {
  const redacts = call.get(redactor)
  const err = redacts === undefined ? error : redactedError(error, redacts)
  return { err, trace_id: call.trace.traceId, span_id: call.trace.spanId }
}
