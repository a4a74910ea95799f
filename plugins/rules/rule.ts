// A compiled rule, and its judgement of a call.
import type { Finding } from '@svc/core'
import { canonicalize, sha256Hex } from '@svc/core/json'
import { compilePatternSet, type PatternSet } from '@svc/core/match'
import type { RuleConfig } from './config.js'
import {
  type CallScope,
  compileExpression,
  compilePath,
  type Expression,
  Failure,
  type ReadPath,
  type Variables,
} from './engine/index.js'
import { claimedPaths } from './variables.js'

export type RuleKind = 'require' | 'when' | 'always'

export interface Rule {
  readonly name: string
  readonly kind: RuleKind
  /** The text of its condition. */
  readonly source: string | undefined
  readonly then: RuleConfig['then']
  readonly keep: readonly ReadPath[]
  readonly patterns: PatternSet | undefined
  readonly expression: Expression | undefined
  readonly message: string
  readonly approval: { readonly setId?: string; readonly digest: string }
}

/** What the condition of a rule was for a call. */
export interface RuleResult {
  /** Undefined for a rule without a condition, and for a condition with an error. */
  readonly value: boolean | undefined
  /** Why the condition has no value. */
  readonly error: string | undefined
  /** Whether the rule has its effect. */
  readonly applies: boolean
}

/** @throws {ExpressionError} for a mistake in its expressions */
export function compilePolicyRule(config: RuleConfig, vars: Readonly<Record<string, unknown>>): Rule {
  const { name, tools, then, message, keep = [], approval_set_id: setId } = config
  const source = config.require ?? config.when
  return {
    name,
    kind: config.require !== undefined ? 'require' : config.when !== undefined ? 'when' : 'always',
    source,
    then,
    keep: keep.map((path) => compilePath(path, { vars })),
    patterns: tools === undefined ? undefined : compilePatternSet(tools),
    expression: source === undefined ? undefined : compileExpression(source, { vars }),
    // A denial puts its details into a sentence.
    message: message?.replace(/\.$/, '') ?? `the rule ${name} does not allow it`,
    approval: {
      ...(setId === undefined ? {} : { setId }),
      digest: sha256Hex(canonicalize(config)),
    },
  }
}

const always: RuleResult = { value: undefined, error: undefined, applies: true }

/** The rule has its effect if it has it by any of the readings: of some names an upstream may read another tool. */
export function judge(
  rule: Rule,
  [variables, ...others]: readonly [Variables, ...Variables[]],
  scope: CallScope,
): RuleResult {
  const result = judgeReading(rule, variables, scope)
  if (result.applies || rule.expression?.mentions('tool') !== true) return result
  for (const other of others) {
    const found = judgeReading(rule, other, scope)
    if (found.applies) return found
  }
  return result
}

/** What callers and servers claim of themselves can give a rule its effect, and never take it away. */
function judgeReading(rule: Rule, variables: Variables, scope: CallScope): RuleResult {
  const { expression, kind } = rule
  if (expression === undefined) return always
  const result = resultOf(kind, expression.evaluate(variables, scope))
  if (result.applies || !claimedPaths.some((path) => expression.mentions(path))) return result
  return resultOf(kind, expression.evaluate(withoutClaims(variables), scope))
}

function withoutClaims(variables: Variables): Variables {
  const { annotations: _, ...tool } = variables.tool
  return { ...variables, claimed: {}, tool }
}

function resultOf(kind: RuleKind, value: unknown): RuleResult {
  if (typeof value === 'boolean') return { value, error: undefined, applies: value === (kind === 'when') }
  const error = value instanceof Failure ? value.message : 'the condition is not a bool'
  return { value: undefined, error, applies: true }
}

export function ruleFinding({ name, then, message, approval }: Rule, { error }: RuleResult): Finding {
  const detail = error === undefined ? message : `${message} (${error})`
  return {
    reason: `rule:${name}`,
    stage: 'rules',
    detail,
    ruling: then,
    ...(then === 'escalate' ? { approval } : {}),
  }
}
