// Canonical JSON (RFC 8785) of what `JSON.parse` gives, for browsers; `canonicalize` of core writes the same.

const MAX_DEPTH = 512
const LONE_SURROGATE = /\p{Cs}/u

/** Undefined for what has no such text: an infinite number, half of a surrogate pair, more than 512 levels. */
export function canonicalText(value: unknown, depth = 0): string | undefined {
  if (typeof value === 'string') return LONE_SURROGATE.test(value) ? undefined : JSON.stringify(value)
  if (typeof value === 'number') return Number.isFinite(value) ? JSON.stringify(value) : undefined
  if (typeof value !== 'object' || value === null) return JSON.stringify(value)
  if (depth >= MAX_DEPTH) return undefined
  const parts: string[] = []
  const members = Object.entries(value)
  if (!Array.isArray(value)) members.sort(([a], [b]) => (a < b ? -1 : 1))
  for (const [name, member] of members) {
    const label = Array.isArray(value) ? '' : canonicalText(name)
    const text = canonicalText(member, depth + 1)
    if (label === undefined || text === undefined) return undefined
    parts.push(label === '' ? text : `${label}:${text}`)
  }
  return Array.isArray(value) ? `[${parts.join(',')}]` : `{${parts.join(',')}}`
}
