// Reading what others wrote, where anything but a JSON object means nothing.

/** The members of the JSON object in `text`; undefined for any other text. The fault, which quotes it, is told nobody. */
export function jsonObjectIn(text: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(text)
    return isJsonObject(value) ? value : undefined
  } catch (fault) {
    if (fault instanceof SyntaxError) return undefined
    throw fault
  }
}

export function isJsonObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
