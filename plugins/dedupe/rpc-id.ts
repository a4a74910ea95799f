// Replaces the id of a JSON-RPC response and copies the rest as text, so that numbers beyond a double stay exact.

/** JSON-RPC 2.0 §5. Text that is not a JSON object is returned unchanged. */
export function withRpcId(text: string, id: string | number): string {
  let at = skipSpace(text, 0)
  if (text[at] !== '{' || !isJson(text)) return text
  let result = ''
  let copied = 0
  at = skipSpace(text, at + 1)
  while (text[at] === '"') {
    const nameEnd = skipString(text, at)
    const isId = JSON.parse(text.slice(at, nameEnd)) === 'id'
    const from = skipSpace(text, skipSpace(text, nameEnd) + 1)
    const end = skipValue(text, from)
    if (isId) {
      result += text.slice(copied, from) + JSON.stringify(id)
      copied = end
    }
    at = skipSpace(text, end)
    if (text[at] !== ',') break
    at = skipSpace(text, at + 1)
  }
  return result + text.slice(copied)
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text)
    return true
  } catch (error) {
    if (error instanceof SyntaxError) return false
    throw error
  }
}

function skipSpace(text: string, from: number): number {
  let at = from
  while (isSpace(text[at])) at++
  return at
}

function isSpace(char: string | undefined): boolean {
  return char === ' ' || char === '\n' || char === '\r' || char === '\t'
}

/** The index after the closing quote of the string at `from`. */
function skipString(text: string, from: number): number {
  let at = from + 1
  while (at < text.length && text[at] !== '"') at += text[at] === '\\' ? 2 : 1
  return at + 1
}

function skipValue(text: string, from: number): number {
  let at = from
  let depth = 0
  while (at < text.length) {
    const char = text[at]
    if (char === '"') {
      at = skipString(text, at)
      if (depth === 0) return at
      continue
    }
    if (depth === 0 && (char === ',' || char === '}' || isSpace(char))) return at
    if (char === '{' || char === '[') depth++
    else if ((char === '}' || char === ']') && --depth === 0) return at + 1
    at++
  }
  return at
}
