// Changes members of a message without touching the rest of its text: numbers that a double cannot represent, and the order
// and spelling of everything, stay as the server wrote them.

const QUOTE = 0x22
const BACKSLASH = 0x5c
const COLON = 0x3a
const COMMA = 0x2c
const OPEN = new Set([0x7b, 0x5b])
const CLOSE = new Set([0x7d, 0x5d])

/**
 * `text` is a valid JSON object. By the name of a member its new JSON, or undefined if it goes. Undefined if a member
 * that stays is not there exactly once.
 */
export function withMembers(
  text: string,
  changes: Readonly<Record<string, string | undefined>>,
): string | undefined {
  const pieces: string[] = []
  const found = new Set<string>()
  let depth = 0
  let start = 0
  let colon = -1
  const add = (end: number): boolean => {
    const name = colon < 0 ? undefined : String(JSON.parse(text.slice(start, colon)))
    if (name === undefined || !Object.hasOwn(changes, name)) pieces.push(text.slice(start, end))
    else if (changes[name] !== undefined) {
      if (found.has(name)) return false
      found.add(name)
      const value = text.slice(colon + 1, end)
      pieces.push(text.slice(start, colon + 1) + value.replace(value.trim(), () => String(changes[name])))
    }
    start = end + 1
    colon = -1
    return true
  }
  for (let at = 0; at < text.length; at++) {
    const unit = text.charCodeAt(at)
    if (unit === QUOTE) at = endOfString(text, at)
    else if (OPEN.has(unit)) {
      if (++depth === 1) start = at + 1
    } else if (unit === COLON && depth === 1 && colon < 0) colon = at
    else if ((unit === COMMA && depth === 1) || (CLOSE.has(unit) && --depth === 0)) {
      if (!add(at)) return undefined
    }
  }
  const isWhole = Object.entries(changes).every(([name, json]) => json === undefined || found.has(name))
  return isWhole ? `{${pieces.join(',')}}` : undefined
}

/** The index of the closing quote. */
function endOfString(text: string, start: number): number {
  let at = start + 1
  while (at < text.length && text.charCodeAt(at) !== QUOTE) at += text.charCodeAt(at) === BACKSLASH ? 2 : 1
  return at
}
