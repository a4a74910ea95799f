// Checks what a stage returned, since a stage in JavaScript may return anything.
import { isErrorCode } from '../call/errors.js'
import type { Outcome, ResponseHeaders } from '../call/outcome.js'

/** The value, made immutable; undefined if it is not an outcome. Reading it may throw. */
export function outcomeIn(value: unknown): Outcome | undefined {
  if (!isOutcome(value)) return undefined
  if (value.headers !== undefined) Object.freeze(value.headers)
  return Object.freeze(value)
}

function isOutcome(value: unknown): value is Outcome {
  if (typeof value !== 'object' || value === null) return false
  const { kind, headers, code, message, status, body, error, digest } = value as Partial<
    Record<string, unknown>
  >
  if (kind === 'denied' || kind === 'failed') {
    return isErrorCode(code) && typeof message === 'string' && (headers === undefined || areHeaders(headers))
  }
  return (
    kind === 'completed' &&
    isStatus(status) &&
    areHeaders(headers) &&
    isBody(body) &&
    (error === undefined || isErrorCode(error)) &&
    (digest === undefined || digest === null || typeof digest === 'string')
  )
}

/** The status codes of a final response (RFC 9110 §15). */
function isStatus(status: unknown): boolean {
  return typeof status === 'number' && Number.isInteger(status) && status >= 200 && status <= 999
}

function isBody(body: unknown): boolean {
  if (body instanceof Uint8Array) return true
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
    if (!(Array.isArray(value) ? value.every(isFieldValue) : isFieldValue(value))) return false
  }
  return true
}

function isFieldValue(value: unknown): boolean {
  return typeof value === 'string' && fieldValue.test(value)
}
