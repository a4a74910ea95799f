// Finds duplicate member names in JSON that the gateway may not refuse: what a server sends.

/**
 * Whether some object in `text`, of which JSON.parse made `value`, has two members of one name: parsers differ in which
 * they take. The members written are counted against those that were kept.
 */
export function hasDuplicateMembers(text: string, value: unknown): boolean {
  return writtenMembers(text) !== keptMembers(value)
}

const QUOTE = 0x22
const COLON = 0x3a
const BACKSLASH = 0x5c

/** The colons outside strings of valid JSON. */
function writtenMembers(text: string): number {
  let members = 0
  for (let at = 0; at < text.length; at++) {
    const unit = text.charCodeAt(at)
    if (unit === COLON) members++
    else if (unit === QUOTE) at = endOfString(text, at + 1)
  }
  return members
}

/** The index of the closing quote. */
function endOfString(text: string, from: number): number {
  let at = from
  while (at < text.length) {
    const unit = text.charCodeAt(at)
    if (unit === QUOTE) break
    at += unit === BACKSLASH ? 2 : 1
  }
  return at
}

/** Without recursion, as the depth of what a server sends has no limit. */
function keptMembers(value: unknown): number {
  let members = 0
  const open = [value]
  while (open.length > 0) {
    const next = open.pop()
    if (typeof next !== 'object' || next === null) continue
    const inner: unknown[] = Object.values(next)
    if (!Array.isArray(next)) members += inner.length
    for (const child of inner) if (typeof child === 'object' && child !== null) open.push(child)
  }
  return members
}
