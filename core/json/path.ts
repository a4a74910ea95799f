// Where in a JSON value something stands, for messages.

const IDENTIFIER = /^[A-Za-z_$][\w$]*$/

/** A JSONPath such as `$.args[3]["odd key"]`. */
export function jsonPath(segments: readonly (string | number)[]): string {
  return segments.reduce<string>((prefix, segment) => {
    if (typeof segment === 'number') return `${prefix}[${segment}]`
    return IDENTIFIER.test(segment) ? `${prefix}.${segment}` : `${prefix}[${JSON.stringify(segment)}]`
  }, '$')
}

/** The path, shortened: a deep or cyclic value makes one too long to read, and both its ends tell where to look. */
export function shownPath(segments: readonly (string | number)[]): string {
  const path = jsonPath(segments)
  return path.length > 240 ? `${path.slice(0, 120)} … ${path.slice(-100)}` : path
}
