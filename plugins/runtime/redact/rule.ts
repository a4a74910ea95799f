// One redaction rule, compiled and applied to JSON values and to text. Regular expressions are not supported, because a
// response could be written to make one backtrack without end.
import { isJsonNumber, isTooCostly, JsonNumber, parseJsonContainer, stringifyJson } from '@svc/core/json'
import { personalDataKinds, redactPii } from '@svc/core/pii'
import { z } from 'zod'

type Step =
  | { readonly kind: 'member'; readonly name: string }
  | { readonly kind: 'index'; readonly index: number }
  | { readonly kind: 'any' }
  | { readonly kind: 'descend' }

type JsonPath = readonly Step[]

const segment =
  /(?<dots>\.\.?)(?:(?<name>[\p{L}_][\p{L}\p{N}\p{M}_-]*)|(?<star>\*))|(?<descend>\.\.)?\[(?:(?<any>\*)|(?<index>0|[1-9]\d{0,8})|'(?<single>[^'\\]*)'|"(?<double>[^"\\]*)")\]/uy

/** Undefined for a path outside the subset. */
function parsePath(text: string): JsonPath | undefined {
  if (!text.startsWith('$')) return undefined
  const steps: Step[] = []
  segment.lastIndex = 1
  while (segment.lastIndex < text.length) {
    const groups = segment.exec(text)?.groups
    if (groups === undefined) return undefined
    if (groups['dots'] === '..' || groups['descend'] !== undefined) steps.push({ kind: 'descend' })
    steps.push(selectorOf(groups))
  }
  return steps.filter(({ kind }) => kind === 'descend').length > 1 ? undefined : steps
}

function selectorOf(groups: Readonly<Record<string, string | undefined>>): Step {
  const name = groups['name'] ?? groups['single'] ?? groups['double']
  if (name !== undefined) return { kind: 'member', name }
  const { index } = groups
  return index === undefined ? { kind: 'any' } : { kind: 'index', index: Number(index) }
}

/** The value with `replacement` in place of each node that the path selects; unchanged if it selects none. */
function replacePath(value: unknown, path: JsonPath, replacement: unknown, at = 0): unknown {
  const step = path[at]
  if (step === undefined) return replacement
  if (typeof value !== 'object' || value === null) return value
  if (step.kind === 'descend') {
    const replaced = replacePath(value, path, replacement, at + 1)
    return mapChildren(replaced, (child) => replacePath(child, path, replacement, at))
  }
  return mapChildren(value, (child, key) =>
    selects(step, key) ? replacePath(child, path, replacement, at + 1) : child,
  )
}

function selects(step: Step, key: string | number): boolean {
  if (step.kind === 'any') return true
  return step.kind === 'member' ? step.name === key : step.kind === 'index' && step.index === key
}

/** The array or object with each element or member mapped; any other value unchanged. */
export function mapChildren(value: unknown, map: (child: unknown, key: string | number) => unknown): unknown {
  if (typeof value !== 'object' || value === null || value instanceof JsonNumber) return value
  if (Array.isArray(value)) return value.map((child: unknown, index) => map(child, index))
  return Object.fromEntries(Object.entries(value).map(([key, child]) => [key, map(child, key)]))
}

const pattern = z.union([z.enum(personalDataKinds), z.strictObject({ literal: z.string().min(1).max(1024) })])

/** Without `paths` and `patterns`, the whole response is redacted. */
export const outputRuleSchema = z.strictObject({
  all: z.literal(true).optional(),
  paths: z.array(z.string().min(1).max(256)).min(1).max(64).optional(),
  patterns: z.array(pattern).min(1).max(64).optional(),
  replacement: z.string().max(256).optional(),
})

type OutputRuleParams = z.output<typeof outputRuleSchema>

const defaultReplacement = '[redacted]'
const maxDepth = 512

/** Replaces the matches of one or more patterns. */
type Detector = (text: string) => string

export interface OutputRule {
  readonly params: OutputRuleParams
  /** Whether the whole response is replaced. */
  readonly isAll: boolean
  readonly paths: readonly JsonPath[]
  readonly detectors: readonly Detector[]
  readonly replacement: string
}

/** Undefined if a path is not supported. */
export function compileRule(params: OutputRuleParams): OutputRule | undefined {
  const { all, paths = [], patterns = [], replacement = defaultReplacement } = params
  const steps = paths.map(parsePath)
  if (steps.includes(undefined)) return undefined
  return {
    params,
    isAll: all === true || paths.length + patterns.length === 0,
    paths: steps.filter((path) => path !== undefined),
    detectors: detectorsFor(patterns, replacement),
    replacement,
  }
}

/** Literals come first: another pattern's replacement could destroy a literal that it overlaps. */
function detectorsFor(
  patterns: NonNullable<OutputRuleParams['patterns']>,
  replacement: string,
): readonly Detector[] {
  const kinds = patterns.filter((pattern) => typeof pattern === 'string')
  const literals = patterns.filter((pattern) => typeof pattern !== 'string')
  return [
    ...literals.map(
      ({ literal }): Detector =>
        (text) =>
          text.replaceAll(literal, () => replacement),
    ),
    ...(kinds.length === 0 ? [] : [(text: string) => redactPii(text, { kinds, replacement })]),
  ]
}

/** Largest response that is searched for patterns, and largest that is parsed at all, in bytes. */
const maxSearchedBytes = 2 * 1024 * 1024
const maxParsedBytes = 16 * 1024 * 1024

/** The rules for a response of this size. A response over the limit is replaced whole. */
export function rulesFor(rules: readonly OutputRule[], bytes: number): readonly OutputRule[] {
  const max = rules.some(({ detectors }) => detectors.length > 0) ? maxSearchedBytes : maxParsedBytes
  return bytes <= max ? rules : rules.map((rule) => ({ ...rule, isAll: true }))
}

/** The description for findings in the record. */
export function describeOutputRule({ isAll, params }: OutputRule): string {
  if (isAll) return 'everything'
  const { paths = [], patterns = [] } = params
  const names = patterns.map((pattern) => (typeof pattern === 'string' ? pattern : 'a literal'))
  const text = [...paths, ...names].join(', ')
  return text.length > 200 ? `${text.slice(0, 199)}…` : text
}

/** A value nested deeper than `maxDepth` is replaced whole. */
export function redactJson(value: unknown, rule: OutputRule): unknown {
  if (rule.isAll || isTooDeep(value)) return rule.replacement
  const replaced = rule.paths.reduce((result, path) => replacePath(result, path, rule.replacement), value)
  return rule.detectors.length === 0 ? replaced : redactScalars(replaced, rule)
}

/**
 * Text that holds a JSON array or object is parsed, redacted and serialized again, so that duplicate members cannot hide
 * content. Paths cannot select in other text: a rule with paths replaces it whole, as text is that costs too much to parse.
 */
export function redactText(text: string, rule: OutputRule): string {
  if (rule.isAll || isTooCostly(text)) return rule.replacement
  const value = parseJsonContainer(text)
  if (value !== undefined) return stringifyJson(redactJson(value, rule))
  return rule.paths.length > 0 ? rule.replacement : applyDetectors(text, rule)
}

/** Also redacts member names, and numbers by their decimal form. */
function redactScalars(value: unknown, rule: OutputRule): unknown {
  if (typeof value === 'string') return applyDetectors(value, rule)
  if (isJsonNumber(value)) {
    const text = String(value)
    const redacted = applyDetectors(text, rule)
    return redacted === text ? value : redacted
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    return mapChildren(value, (child) => redactScalars(child, rule))
  }
  return Object.fromEntries(
    Object.entries(value).map(([key, child]) => [applyDetectors(key, rule), redactScalars(child, rule)]),
  )
}

function applyDetectors(text: string, { detectors }: OutputRule): string {
  return detectors.reduce((result, detect) => detect(result), text)
}

function isTooDeep(value: unknown): boolean {
  let level: unknown[] = [value]
  for (let depth = 0; level.length > 0; depth++) {
    if (depth > maxDepth) return true
    level = level.flatMap((item) => (typeof item === 'object' && item !== null ? Object.values(item) : []))
  }
  return false
}
