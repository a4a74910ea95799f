// A compiled rule, and its judgement of a call.
import { type Finding, isUnrecorded, type RequiredApproval } from '@svc/core'
import { canonicalize, defined, sha256Hex } from '@svc/core/json'
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
import { compileQuestion, type RuleQuestion } from './question.js'
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
  readonly labels: readonly string[]
  readonly approval: RequiredApproval
  /** With `then: confirm`. */
  readonly confirmation?: { readonly question: RuleQuestion; readonly otherwise: 'deny' | 'escalate' }
}

/** The value of a rule's condition for a call. */
export interface RuleResult {
  /** Undefined for a rule without a condition, and for a condition with an error. */
  readonly value: boolean | undefined
  /** Why the condition has no value. */
  readonly error: string | undefined
  /** Whether the rule has its effect. */
  readonly applies: boolean
  /** The values that the record of a call lacks, so that the rule may have its effect. */
  readonly missing?: readonly string[]
}

/** @throws {ExpressionError} for a mistake in its expressions */
export function compilePolicyRule(config: RuleConfig, vars: Readonly<Record<string, unknown>>): Rule {
  const { name, tools, then, message, keep = [], approval_set_id: setId } = config
  const source = config.require ?? config.when
  const expression = source === undefined ? undefined : compileExpression(source, { vars })
  const kept = keep.map((path) => compilePath(path, { vars }))
  return {
    name,
    kind: config.require !== undefined ? 'require' : config.when !== undefined ? 'when' : 'always',
    source,
    then,
    labels: config.labels ?? [],
    keep: kept,
    patterns: tools === undefined ? undefined : compilePatternSet(tools),
    expression,
    // A denial puts its details into a sentence.
    message: message?.replace(/\.$/, '') ?? `the rule ${name} does not allow it`,
    approval: {
      ...defined({ setId }),
      digest: sha256Hex(canonicalize(config)),
      reads: [...(expression?.reads ?? []), ...kept].map(({ names }) => names),
    },
    ...(then === 'confirm'
      ? {
          confirmation: {
            question:
              config.ask === undefined
                ? () => message ?? `Allow what the rule ${name} asks about?`
                : compileQuestion(config.ask, vars),
            otherwise: config.else ?? 'deny',
          },
        }
      : {}),
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
  const found = others.map((other) => judgeReading(rule, other, scope))
  return found.find(({ applies }) => applies) ?? [result, ...found].find(isPossible) ?? result
}

function isPossible({ missing }: RuleResult): boolean {
  return missing !== undefined
}

/** Claims of callers and servers about themselves can give a rule its effect, and never take it away. */
function judgeReading(rule: Rule, variables: Variables, scope: CallScope): RuleResult {
  const { expression, kind } = rule
  if (expression === undefined) return always
  const result = resultOf(kind, expression.evaluate(variables, scope))
  if (result.applies || !claimedPaths.some((path) => expression.mentions(path))) return result
  const unclaimed = resultOf(kind, expression.evaluate(withoutClaims(variables), scope))
  return !unclaimed.applies && isPossible(result) ? result : unclaimed
}

function withoutClaims(variables: Variables): Variables {
  const tool = Object.defineProperty(Object.create(variables.tool), 'annotations', { value: undefined })
  return { ...variables, claimed: {}, tool }
}

function resultOf(kind: RuleKind, value: unknown): RuleResult {
  if (isUnrecorded(value)) {
    return { value: undefined, error: undefined, applies: false, missing: value.facts }
  }
  if (typeof value === 'boolean') return { value, error: undefined, applies: value === (kind === 'when') }
  const error = value instanceof Failure ? value.message : 'the condition is not a bool'
  return { value: undefined, error, applies: true }
}

/** `read` has what the question of the rule shows; without it the finding is about a reference alone. */
export function ruleFinding(
  { name, then, message, approval, confirmation }: Rule,
  { error }: RuleResult,
  read?: { readonly variables: Variables; readonly scope: CallScope },
): Finding {
  const detail = error === undefined ? message : `${message} (${error})`
  return {
    reason: `rule:${name}`,
    stage: 'rules',
    detail,
    ruling: then,
    ...(then === 'escalate' || confirmation !== undefined ? { approval } : {}),
    ...(confirmation === undefined
      ? {}
      : {
          confirmation: {
            question: read === undefined ? message : confirmation.question(read.variables, read.scope),
            otherwise: confirmation.otherwise,
          },
        }),
  }
}

/** The finding about a recorded call to which the rule may apply. */
export function possibleFinding(rule: Rule, { missing = [] }: RuleResult, vars: Variables['vars']): Finding {
  const finding = ruleFinding(rule, { value: undefined, error: undefined, applies: true })
  return { ...finding, possible: { missing, basis: basisOf(rule, vars) } }
}

const bases = new WeakMap<Rule, WeakMap<Variables['vars'], string>>()

/** The variables that decide whether a matching rule has its effect. Side effects are decided by other sections too. */
function basisOf(rule: Rule, vars: Variables['vars']): string {
  const known = bases.get(rule) ?? new WeakMap<Variables['vars'], string>()
  bases.set(rule, known)
  let basis = known.get(vars)
  if (basis === undefined) {
    const { kind, source = '', expression } = rule
    const read = Object.entries(vars).filter(([name]) => expression?.mentions(`vars.${name}`) === true)
    const isOwn = expression?.mentions('tool.side_effecting') !== true
    basis = isOwn ? sha256Hex(canonicalize({ kind, source, vars: Object.fromEntries(read) })) : ''
    known.set(vars, basis)
  }
  return basis
}
