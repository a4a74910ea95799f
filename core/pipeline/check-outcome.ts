// Checks what a stage returned, since a stage in JavaScript may return anything.
import { isErrorCode } from '../call/errors.js'
import type { Outcome, ResponseHeaders } from '../call/outcome.js'

/** The value, made immutable; undefined if it is not an outcome. Reading it may throw. */
export function outcomeIn(value: unknown): Outcome | undefined {
  if (typeof value !== 'object' || value === null) return undefined
  const { kind, headers, code, message, status, body, error, digest } = value as Partial<
    Record<string, unknown>
  >
  const isOutcome =
    kind === 'denied' || kind === 'failed'
      ? isErrorCode(code) && typeof message === 'string' && (headers === undefined || areHeaders(headers))
      : kind === 'completed' &&
        // The status codes of a final response (RFC 9110 §15).
        typeof status === 'number' &&
        Number.isInteger(status) &&
        status >= 200 &&
        status <= 999 &&
        areHeaders(headers) &&
        (body instanceof Uint8Array || isIterable(body)) &&
        (error === undefined || isErrorCode(error)) &&
        (digest === undefined || digest === null || typeof digest === 'string')
  if (!isOutcome) return undefined
  if (headers !== undefined) Object.freeze(headers)
  return Object.freeze(value as Outcome)
}

function isIterable(body: unknown): boolean {
  return (
    typeof body === 'object' && body !== null && typeof Reflect.get(body, Symbol.asyncIterator) === 'function'
  )
}

const fieldName = /^[\w!#$%&'*+.^`|~-]+$/
/** The header fields that node:http sends (RFC 9110 §5.5). */
const fieldValue = /^[\t\x20-\x7e\x80-\xff]*$/

function areHeaders(headers: unknown): headers is ResponseHeaders {
  if (typeof headers !== 'object' || headers === null) return false
  // Inherited headers too, as the sender reads them.
  for (const name in headers) {
    if (!fieldName.test(name)) return false
    const value: unknown = (headers as Partial<Record<string, unknown>>)[name]
    if (typeof value === 'string' ? !fieldValue.test(value) : !areFieldValues(value)) return false
  }
  return true
}

function areFieldValues(values: unknown): boolean {
  return Array.isArray(values) && values.every((value) => typeof value === 'string' && fieldValue.test(value))
}
