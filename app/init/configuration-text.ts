// Reads and edits the text of a client's configuration: JSON, with comments where the client accepts them. An edit keeps
// every byte outside the members that it changes.
import { applyEdits, getNodeValue, modify, type Node, type ParseError, parseTree } from 'jsonc-parser'

/** The file is left alone; the message has the place, and never a value. */
export class ConfigurationError extends Error {
  override readonly name = 'ConfigurationError'
}

const byteOrderMark = '\uFEFF'
const maxBytes = 64 * 1024 * 1024

/** The text without a byte order mark. Throws `ConfigurationError`. */
export function decodeConfiguration(bytes: Uint8Array): string {
  if (bytes.byteLength > maxBytes) throw new ConfigurationError(`larger than ${maxBytes} bytes`)
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch (cause) {
    throw new ConfigurationError('not UTF-8', { cause })
  }
}

/** The bytes of a text that takes the place of `former`, which may begin with a byte order mark. */
export function encodeConfiguration(text: string, former: Uint8Array): Buffer {
  const hasMark = former[0] === 0xef && former[1] === 0xbb && former[2] === 0xbf
  return Buffer.from(hasMark ? byteOrderMark + text : text)
}

/** A value of the text, and where it stands. */
export interface ConfigurationNode {
  readonly value: unknown
  readonly start: number
  readonly end: number
  /** The members of an object. */
  readonly members: ReadonlyMap<string, ConfigurationNode>
}

/** Throws `ConfigurationError`: not JSON, or one member twice, of which clients read one or the other. */
export function parseConfiguration(text: string, hasComments: boolean): ConfigurationNode {
  const errors: ParseError[] = []
  try {
    const root = parseTree(text, errors, { disallowComments: !hasComments, allowTrailingComma: hasComments })
    const [error] = errors
    if (error !== undefined) throw new ConfigurationError(`not JSON at ${placeOf(text, error.offset)}`)
    if (root === undefined) throw new ConfigurationError('not JSON at 1:1')
    return nodeOf(root, text)
  } catch (cause) {
    if (!(cause instanceof RangeError)) throw cause
    throw new ConfigurationError('nested too deeply', { cause })
  }
}

function placeOf(text: string, offset: number): string {
  const lines = text.slice(0, offset).split(/\r\n|\r|\n/)
  return `${lines.length}:${(lines.at(-1) ?? '').length + 1}`
}

function nodeOf(node: Node, text: string): ConfigurationNode {
  const members = new Map<string, ConfigurationNode>()
  for (const { children: [name, value] = [], offset } of node.type === 'object'
    ? (node.children ?? [])
    : []) {
    if (name === undefined || value === undefined) continue
    const key = String(name.value)
    if (key === '__proto__' || members.has(key)) {
      const why = key === '__proto__' ? 'a member __proto__' : `the member ${JSON.stringify(key)} twice`
      throw new ConfigurationError(`${why} at ${placeOf(text, offset)}`)
    }
    members.set(key, nodeOf(value, text))
  }
  return {
    get value(): unknown {
      // Its objects have no prototype, which a comparison would notice.
      return structuredClone(getNodeValue(node))
    },
    start: node.offset,
    end: node.offset + node.length,
    members,
  }
}

export function nodeAt(root: ConfigurationNode, path: readonly string[]): ConfigurationNode | undefined {
  let node: ConfigurationNode | undefined = root
  for (const name of path) node = node?.members.get(name)
  return node
}

/**
 * The text with these members of the object at `path`; undefined removes one. What is inserted has no line breaks: a
 * formatter would change the lines around it.
 */
export function editMembers(
  text: string,
  path: readonly string[],
  members: Readonly<Record<string, unknown>>,
): string {
  let edited = text
  for (const [name, value] of Object.entries(members)) {
    edited = applyEdits(edited, modify(edited, [...path, name], value, {}))
  }
  return edited
}
