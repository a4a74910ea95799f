// Says of a text that is not YAML where the first mistake is, and what is wrong there, in words of the author. The
// errors that a parser finds after the first are consequences of it.
import { type Document, isScalar, type Node, visit, type YAMLError } from 'yaml'

export interface SyntaxMistake {
  readonly offset: number
  readonly message: string
}

const otherIndent = 'is not indented like the lines before it that belong together with it'

export function syntaxMistake(error: YAMLError, text: string, document: Document<Node>): SyntaxMistake {
  const [offset] = error.pos
  const line = lineAt(text, offset)
  switch (error.code) {
    case 'TAB_AS_INDENT': {
      const tab = /^ *\t/.exec(line.text)?.[0].length
      return at(
        tab === undefined ? offset : line.start + tab - 1,
        'a tab indents this line; YAML takes spaces',
      )
    }
    case 'MULTILINE_IMPLICIT_KEY':
      return keyMistake(line)
    case 'MISSING_CHAR':
      if (/^Missing ,/.test(error.message)) return at(offset, 'a comma is missing here')
      if (!/^Missing closing/.test(error.message)) return keyMistake(line)
      return at(openQuote(document, offset), 'the quote that opens here is not closed')
    case 'BAD_INDENT':
      if (/^Flow/.test(error.message)) return openBracket(text, offset)
      return missingSpace(line) ?? at(line.first, `this line ${otherIndent}`)
    case 'BLOCK_AS_IMPLICIT_KEY':
      if (/sequence/.test(error.message)) return at(line.first, `this line ${otherIndent}`)
      return nestedMapping(text, offset, line)
    case 'BLOCK_IN_FLOW':
      return (
        secondColon(offset, line) ??
        at(offset, 'inside brackets, a comma or a bracket is missing before here')
      )
    case 'UNEXPECTED_TOKEN':
      if (line.first === offset) return at(offset, `this line ${otherIndent}`)
      return at(offset, 'this text is not expected here')
    case 'BAD_SCALAR_START':
      return at(offset, `a text that begins with ${text.charAt(offset)} needs quotes`)
    case 'BAD_ALIAS':
      return at(offset, `a text that begins with ${text.charAt(offset)} needs quotes`)
    default:
      return at(offset, error.message.charAt(0).toLowerCase() + error.message.slice(1))
  }
}

const at = (offset: number, what: string): SyntaxMistake => ({ offset, message: `not valid YAML: ${what}` })

interface Line {
  readonly text: string
  readonly start: number
  /** The offset of its first character that is not white space. */
  readonly first: number
}

function lineAt(text: string, offset: number): Line {
  const start = text.lastIndexOf('\n', offset - 1) + 1
  const end = text.indexOf('\n', start)
  const line = text.slice(start, end === -1 ? undefined : end)
  return { text: line, start, first: start + (/\S/.exec(line)?.index ?? 0) }
}

/** `tenant:acme` and `-read`, which are texts, not a key and an item. */
function missingSpace({ text, start }: Line): SyntaxMistake | undefined {
  const [key, name] = /^\s*(?:- +)*["']?([\w./@*-]+?)["']?:(?=[^\s/])/.exec(text) ?? []
  if (key !== undefined) return at(start + key.length, `there is no space after the colon of "${name}"`)
  const [dash] = /^\s*-(?=[^\s-])/.exec(text) ?? []
  return dash === undefined ? undefined : at(start + dash.length, 'there is no space after the dash')
}

function keyMistake(line: Line): SyntaxMistake {
  return (
    missingSpace(line) ?? at(line.first, 'there is no key with a colon in this line; expected key: value')
  )
}

/** The value of a key at `offset` is followed by a colon, in its line or at the beginning of a deeper line. */
function nestedMapping(text: string, offset: number, line: Line): SyntaxMistake {
  const second = secondColon(offset, line)
  if (second !== undefined) return second
  const after = /\n(?:[ \t]*(?:#.*)?\n)*[ \t]*(?=\S)/.exec(text.slice(offset))
  return at(
    after === null ? offset : offset + after.index + after[0].length,
    'this line is indented deeper, and the line before it has a value already',
  )
}

function secondColon(offset: number, { text, start }: Line): SyntaxMistake | undefined {
  const colon = /:(?=\s|$)/.exec(text.slice(offset - start))
  if (colon === null) return undefined
  return at(offset + colon.index, 'a second colon in one line; put a text that has one in quotes')
}

function openQuote(document: Document<Node>, end: number): number {
  let found = end
  visit(document, (_, node) => {
    if (!isScalar(node) || !node.type?.startsWith('QUOTE')) return
    const [start, stop] = node.range ?? [end, end]
    if (start < end && stop >= end) found = start
  })
  return found
}

/** The last bracket before `end` that is not closed; brackets in texts are rare. */
function openBracket(text: string, end: number): SyntaxMistake {
  let depth = 0
  for (let offset = end - 1; offset >= 0; offset--) {
    const character = text.charAt(offset)
    if (/[\]}]/.test(character)) depth++
    if (!/[[{]/.test(character)) continue
    if (depth === 0) return at(offset, `the ${character} that opens here is not closed`)
    depth--
  }
  return at(end, 'a bracket is not closed')
}
