// Redaction of personal data in records, logs and spans, by pseudonyms. A stage sets the redactor in a slot of the call;
// code that writes about the call uses it.

export interface Redactor {
  /** The pseudonym of a user, subject or client: the same for the same name, and not reversible without the key. */
  pseudonym(name: string): string
  /** The text with pseudonyms in place of the caller's names and of other personal data. */
  text(text: string): string
}

/** A JSON value with every string redacted, member names included. */
export function redactedValue<T>(value: T, redactor: Redactor): T
export function redactedValue(value: unknown, redactor: Redactor): unknown {
  if (typeof value === 'string') return redactor.text(value)
  if (typeof value !== 'object' || value === null) return value
  if (Array.isArray(value)) return value.map((item: unknown) => redactedValue(item, redactor))
  const entries = Object.entries(value).map(([key, item]) => [
    redactor.text(key),
    redactedValue(item, redactor),
  ])
  return Object.fromEntries(entries)
}

/** An error for the log, with message, stack and causes redacted; any other value as text. */
export function redactedFault(fault: unknown, redactor: Redactor): unknown {
  if (fault === undefined) return undefined
  if (!(fault instanceof Error)) return redactor.text(String(fault))
  const cause = fault.cause === undefined ? {} : { cause: redactedFault(fault.cause, redactor) }
  const shown = new Error(redactor.text(fault.message), cause)
  shown.name = fault.name
  if (fault.stack !== undefined) shown.stack = redactor.text(fault.stack)
  return 'code' in fault && typeof fault.code === 'string'
    ? Object.assign(shown, { code: fault.code })
    : shown
}
