// How records, logs and spans speak of people where a policy wants them redacted: by pseudonyms. A stage leaves
// the redactor on the call; whoever writes something about the call reads it there.

export interface Redactor {
  /** In place of a user, subject or client: the same for the same name, and telling nothing of it. */
  pseudonym(name: string): string
  /** The text with pseudonyms in place of the caller's names and of whatever else names a person. */
  text(text: string): string
}

/** A JSON value with every string in it redacted, names of members included. */
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

/** A fault for the log: an error with its message, stack, code and causes redacted; what is no error, as text. */
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
