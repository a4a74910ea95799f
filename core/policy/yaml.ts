// Parses the text of a policy: one YAML 1.2 document, restricted to the data model of JSON.
import {
  type Alias,
  isAlias,
  isMap,
  isNode,
  isScalar,
  isSeq,
  LineCounter,
  type Node,
  type Pair,
  parseDocument,
  type YAMLError,
  type YAMLMap,
  type YAMLSeq,
} from 'yaml'
import { canonicalNumber, isExactNumber } from '../json/number.js'
import { mistakeAt, type Origin } from './diagnostic.js'
import { type MapEntry, type PolicyNode, pathOfMember } from './node.js'
import { sourceExcerpt, writtenIndex } from './source-text.js'
import { type SyntaxMistake, syntaxMistake } from './syntax-mistake.js'
import type { Diagnostic } from './types.js'

const maxDepth = 64
/** Characters of one file. Larger ones take minutes to check, and no person reviews them. */
const maxLength = 2 * 1024 * 1024
/** Maximum number of values from aliases: a few lines could otherwise expand to billions. */
const maxExpanded = 10_000

export interface ParsedText {
  /** Undefined if the text cannot be read further. */
  readonly root: PolicyNode | undefined
  readonly mistakes: readonly Diagnostic[]
}

/** Never throws for any text. An empty document is an empty mapping. */
export function parsePolicyText(text: string, file: string): ParsedText {
  const lines = new LineCounter()
  const originAt = (offset: number | undefined): Required<Origin> => {
    const { line, col } = lines.linePos(offset ?? 0)
    return { file, line: Math.max(line, 1), column: Math.max(col, 1) }
  }
  if (text.length > maxLength) {
    const size = (text.length / 1024 / 1024).toFixed(1)
    return {
      root: undefined,
      mistakes: [mistakeAt(originAt(0), '', `too large: ${size} MiB; at most 2 MiB`)],
    }
  }
  let document: ReturnType<typeof parseDocument>
  try {
    document = parseDocument(text, {
      lineCounter: lines,
      version: '1.2',
      schema: 'core',
      merge: false,
      resolveKnownTags: false,
      uniqueKeys: true,
      prettyErrors: false,
      strict: true,
      // Not 'silent', which would accept a second document.
      logLevel: 'error',
    })
  } catch (thrown) {
    if (!(thrown instanceof RangeError)) throw thrown
    return { root: undefined, mistakes: [mistakeAt(originAt(0), '', tooDeep)] }
  }
  const mistakeIn = ({ offset, message }: SyntaxMistake): Diagnostic => {
    const origin = originAt(offset)
    return { ...mistakeAt(origin, '', message), excerpt: sourceExcerpt(text, origin) }
  }
  const fatal = document.errors.find(({ code }) => code !== 'DUPLICATE_KEY')
  if (fatal !== undefined) {
    return {
      root: undefined,
      mistakes: [mistakeIn(refusedYaml(fatal, text) ?? syntaxMistake(fatal, text, document))],
    }
  }
  const syntax = [...document.errors, ...document.warnings].map((error) =>
    mistakeIn(refusedYaml(error, text) ?? syntaxMistake(error, text, document)),
  )
  const builder = new TreeBuilder(text, originAt, (alias) => alias.resolve(document))
  const root =
    document.contents === null
      ? ({ kind: 'map', origin: originAt(0), entries: [] } as const)
      : builder.build(document.contents, '', 0)
  return { root: builder.isFatal ? undefined : root, mistakes: [...syntax, ...builder.mistakes] }
}

const bomb = `the aliases expand to more than ${maxExpanded} values; write out what is meant`
const tooDeep = `nested too deeply; accepted are at most ${maxDepth} levels`

/** Valid YAML that a policy may not have. */
function refusedYaml({ code, pos: [offset, end] }: YAMLError, text: string): SyntaxMistake | undefined {
  switch (code) {
    case 'DUPLICATE_KEY':
      return { offset, message: `the key ${quoted(text, offset)} is given twice; give it once` }
    case 'RESOURCE_EXHAUSTION':
      return { offset, message: tooDeep }
    case 'MULTIPLE_DOCS':
      return { offset, message: 'a second document begins; a policy is one YAML document' }
    case 'TAG_RESOLVE_FAILED': {
      const tag = text.slice(offset, end).trim()
      const accepted = 'plain strings, numbers, true, false, null, lists and mappings'
      return { offset, message: `the tag ${tag} is not read; accepted are ${accepted}` }
    }
    default:
      return undefined
  }
}

function quoted(text: string, offset: number): string {
  const [, key] = /^["']?([^"':\s]+)/.exec(text.slice(offset, offset + 200)) ?? []
  return key === undefined ? 'here' : `"${key}"`
}

class TreeBuilder {
  readonly mistakes: Diagnostic[] = []
  readonly #text: string
  readonly #originAt: (offset: number | undefined) => Required<Origin>
  readonly #resolve: (alias: Alias) => Node | undefined
  readonly #open = new Set<Node>()
  #aliasDepth = 0
  #expanded = 0
  /** True when the tree covers only a part of the text. */
  isFatal = false

  constructor(
    text: string,
    originAt: (offset: number | undefined) => Required<Origin>,
    resolve: (alias: Alias) => Node | undefined,
  ) {
    this.#text = text
    this.#originAt = originAt
    this.#resolve = resolve
  }

  build(node: unknown, path: string, depth: number, at?: Origin): PolicyNode {
    const origin = at ?? this.#originAt(rangeOf(node))
    if (this.#aliasDepth > 0) this.#expanded++
    if (this.#expanded > maxExpanded) return this.#fatal(origin, path, bomb)
    if (depth > maxDepth) return this.#fatal(origin, path, tooDeep)
    if (isAlias(node)) return this.#alias(node, path, depth, origin)
    if (isNode(node) && hasForeignTag(node)) return refusedAt(origin)
    if (isMap(node) || isSeq(node)) {
      this.#open.add(node)
      const built = this.#collection(node, path, depth, origin)
      this.#open.delete(node)
      return built
    }
    if (!isScalar(node)) return { kind: 'scalar', origin, value: null }
    const { value, range, source = '' } = node
    if (typeof value === 'number' && canonicalNumber(source) !== undefined && !isExactNumber(source))
      return { kind: 'scalar', origin, value, token: source }
    if (typeof value !== 'string' || range === undefined || range === null)
      return { kind: 'scalar', origin, value }
    const [start, end] = range
    const placeOf = (index: number) => {
      const place = this.#originAt(start + writtenIndex(this.#text.slice(start, end), value, index))
      return { origin: place, excerpt: sourceExcerpt(this.#text, place) }
    }
    return { kind: 'scalar', origin, value, placeOf }
  }

  #collection(node: YAMLMap | YAMLSeq, path: string, depth: number, origin: Origin): PolicyNode {
    if (isMap(node)) {
      const entries = node.items.flatMap((pair) => this.#entry(pair, path, depth))
      return { kind: 'map', origin, entries }
    }
    const items = node.items.map((item, index) => this.build(item, `${path}[${index}]`, depth + 1))
    return { kind: 'list', origin, items }
  }

  #entry(pair: Pair, path: string, depth: number): MapEntry[] {
    const origin = this.#originAt(rangeOf(pair.key))
    const key = keyText(pair.key)
    if (key === undefined) {
      this.mistakes.push(mistakeAt(origin, path, 'a key is missing or not a string; accepted is a string'))
      return []
    }
    if (key === '__proto__' || key === '<<') {
      const what = key === '<<' ? 'merge keys are not read' : 'this key is reserved'
      this.mistakes.push(mistakeAt(origin, pathOfMember(path, key), `${what}; write out what is meant`))
      return []
    }
    const member = pathOfMember(path, key)
    return [{ key, origin, node: this.build(pair.value, member, depth + 1) }]
  }

  #alias(alias: Alias, path: string, depth: number, origin: Origin): PolicyNode {
    const target = this.#resolve(alias)
    if (target === undefined) {
      return this.#refused(
        origin,
        path,
        `the alias *${alias.source} has no anchor &${alias.source} before it`,
      )
    }
    if (this.#open.has(target)) {
      return this.#refused(origin, path, `the alias *${alias.source} is inside the value that it refers to`)
    }
    this.#aliasDepth++
    const built = this.build(target, path, depth, origin)
    this.#aliasDepth--
    return built
  }

  /** Reported once: consequences are not further mistakes. */
  #fatal(origin: Origin, path: string, message: string): PolicyNode {
    if (!this.isFatal) this.mistakes.push(mistakeAt(origin, shortened(path), message))
    this.isFatal = true
    return refusedAt(origin)
  }

  #refused(origin: Origin, path: string, message: string): PolicyNode {
    this.mistakes.push(mistakeAt(origin, path, message))
    return refusedAt(origin)
  }
}

function refusedAt(origin: Origin): PolicyNode {
  return { kind: 'scalar', origin, value: null, isRefused: true }
}

/** A path of 64 levels is too long for a message. */
function shortened(path: string): string {
  return path.length > 60 ? `${path.slice(0, 60)}…` : path
}

function hasForeignTag({ tag }: Node): boolean {
  return tag !== undefined && !/^tag:yaml\.org,2002:(str|int|float|bool|null|map|seq)$/.test(tag)
}

function rangeOf(node: unknown): number | undefined {
  if (isAlias(node) || isMap(node) || isSeq(node) || isScalar(node)) return node.range?.[0]
  return undefined
}

function keyText(key: unknown): string | undefined {
  if (!isScalar(key)) return undefined
  if (typeof key.value === 'string') return key.value
  return key.value === null ? undefined : (key.source ?? String(key.value))
}
