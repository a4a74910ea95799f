// One redaction rule, compiled: it redacts a JSON value, and text that may hold one.
import { redactPii } from '@svc/core/pii'
import { mapChildren, type Path, parsePath, replacePath } from './path.js'
import type { OutputRuleParams } from './rule-schema.js'

const defaultReplacement = '[redacted]'
const maxDepth = 512

/** The text without what one or more patterns select. */
type RedactText = (text: string) => string

export interface OutputRule {
  readonly params: OutputRuleParams
  /** Hides the whole answer. */
  readonly isAll: boolean
  readonly paths: readonly Path[]
  readonly detectors: readonly RedactText[]
  readonly replacement: string
}

/** Undefined where a path cannot be followed. */
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

/** Literals first: a literal that a match overlaps would no longer be found. */
function detectorsFor(
  patterns: NonNullable<OutputRuleParams['patterns']>,
  replacement: string,
): readonly RedactText[] {
  const kinds = patterns.filter((pattern) => typeof pattern === 'string')
  const literals = patterns.filter((pattern) => typeof pattern !== 'string')
  return [
    ...literals.map(
      ({ literal }): RedactText =>
        (text) =>
          text.replaceAll(literal, () => replacement),
    ),
    ...(kinds.length === 0 ? [] : [(text: string) => redactPii(text, { kinds, replacement })]),
  ]
}

/** The most that is searched for patterns, and the most that is read at all, in bytes. */
const maxSearched = 2 * 1024 * 1024
const maxRead = 16 * 1024 * 1024

/** The rules for an answer of this size. One that would take too long to search is hidden whole. */
export function rulesFor(rules: readonly OutputRule[], bytes: number): readonly OutputRule[] {
  const max = rules.some(({ detectors }) => detectors.length > 0) ? maxSearched : maxRead
  return bytes <= max ? rules : rules.map((rule) => ({ ...rule, isAll: true }))
}

/** For records. */
export function ruleInWords({ isAll, params }: OutputRule): string {
  if (isAll) return 'everything'
  const { paths = [], patterns = [] } = params
  const named = patterns.map((pattern) => (typeof pattern === 'string' ? pattern : 'a literal'))
  const words = [...paths, ...named].join(', ')
  return words.length > 200 ? `${words.slice(0, 199)}…` : words
}

/** A value that is nested too deep to be walked is hidden whole. */
export function redactJson(value: unknown, rule: OutputRule): unknown {
  if (rule.isAll || isTooDeep(value)) return rule.replacement
  const cut = rule.paths.reduce((left, path) => replacePath(left, path, rule.replacement), value)
  return rule.detectors.length === 0 ? cut : redactScalars(cut, rule)
}

/**
 * Text that is JSON is treated as such and written anew, so that no member which one reader sees and another does not
 * slips through. In other text no path leads anywhere: where there are paths, it is hidden.
 */
export function redactText(text: string, rule: OutputRule): string {
  if (rule.isAll) return rule.replacement
  const value = structureIn(text)
  if (value !== undefined) return JSON.stringify(redactJson(value, rule))
  return rule.paths.length > 0 ? rule.replacement : hide(text, rule)
}

/** Names of members too, and numbers as they are written. */
function redactScalars(value: unknown, rule: OutputRule): unknown {
  if (typeof value === 'string') return hide(value, rule)
  if (typeof value === 'number') {
    const written = String(value)
    const shown = hide(written, rule)
    return shown === written ? value : shown
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    return mapChildren(value, (child) => redactScalars(child, rule))
  }
  return Object.fromEntries(
    Object.entries(value).map(([key, child]) => [hide(key, rule), redactScalars(child, rule)]),
  )
}

function hide(text: string, { detectors }: OutputRule): string {
  return detectors.reduce((left, redact) => redact(left), text)
}

/** The list or object that the text is; undefined where it is neither. */
function structureIn(text: string): object | undefined {
  if (!/^\s*[[{]/.test(text)) return undefined
  try {
    const value: unknown = JSON.parse(text)
    return typeof value === 'object' && value !== null ? value : undefined
  } catch (fault) {
    if (fault instanceof SyntaxError) return undefined
    throw fault
  }
}

function isTooDeep(value: unknown): boolean {
  let level: unknown[] = [value]
  for (let depth = 0; level.length > 0; depth++) {
    if (depth > maxDepth) return true
    level = level.flatMap((one) => (typeof one === 'object' && one !== null ? Object.values(one) : []))
  }
  return false
}
