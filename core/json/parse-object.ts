// Reading what others wrote, where anything but a JSON object means nothing.

/** The members of the JSON object in `text`; undefined for any other text. The fault, which quotes it, is told nobody. */
export function parseJsonObject(text: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(text)
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? { ...value } : undefined
  } catch (fault) {
    if (fault instanceof SyntaxError) return undefined
    throw fault
  }
}
