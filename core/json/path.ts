// Paths in JSON values, for messages.

const IDENTIFIER = /^[A-Za-z_$][\w$]*$/

/** A JSONPath such as `$.args[3]["odd key"]`. */
export function jsonPath(segments: readonly (string | number)[]): string {
  return segments.reduce<string>((prefix, segment) => {
    if (typeof segment === 'number') return `${prefix}[${segment}]`
    return IDENTIFIER.test(segment) ? `${prefix}.${segment}` : `${prefix}[${JSON.stringify(segment)}]`
  }, '$')
}

/** The path, shortened in the middle: that of a deep or cyclic value is too long to read. */
export function shownPath(segments: readonly (string | number)[]): string {
  const path = jsonPath(segments)
  return path.length > 240 ? `${path.slice(0, 120)} … ${path.slice(-100)}` : path
}
