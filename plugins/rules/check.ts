// Checks the expressions of rules when a policy is loaded: syntax, names and types, each mistake at its character.
import {
  type ConfigConflict,
  type DependencyContainer,
  hostOf,
  policyTokens,
  resolveOptional,
} from '@svc/core'
import type { RuleConfig, RulesConfig } from './config.js'
import { compileExpression, compilePath, ExpressionError } from './engine/index.js'
import { compileQuestion } from './question.js'
import { policyVars } from './variables.js'

/** The JSON Schema of a tool's arguments, from its pinned definition. */
type SchemaOf = (pattern: string) => unknown

export function checkRules(rules: RulesConfig, bindings: DependencyContainer): ConfigConflict[] {
  const vars = policyVars(hostOf(bindings).vars).common
  const schemaOf = resolveOptional(bindings, policyTokens.toolSchemas)
  return rules.flatMap((rule, index) => checkRule(rule, ['rules', index], vars, schemaOf))
}

function checkRule(
  rule: RuleConfig,
  path: readonly (string | number)[],
  vars: Readonly<Record<string, unknown>>,
  schemaOf: SchemaOf | undefined,
): ConfigConflict[] {
  const found: ConfigConflict[] = []
  const key = rule.require !== undefined ? 'require' : 'when'
  const source = rule[key]
  if (source !== undefined) found.push(...checkCondition(source, [...path, key], rule, vars, schemaOf))
  const { ask } = rule
  if (ask !== undefined) found.push(...attempt([...path, 'ask'], () => compileQuestion(ask, vars)))
  for (const [index, kept] of (rule.keep ?? []).entries()) {
    found.push(...attempt([...path, 'keep', index], () => compilePath(kept, { vars })))
  }
  return found
}

function checkCondition(
  source: string,
  path: readonly (string | number)[],
  { tools = [] }: RuleConfig,
  vars: Readonly<Record<string, unknown>>,
  schemaOf: SchemaOf | undefined,
): ConfigConflict[] {
  const mistakes = attempt(path, () => compileExpression(source, { vars }))
  if (mistakes.length > 0) return mistakes
  if (!compileExpression(source, { vars }).mentions('args')) return []
  const schemas = tools.map((tool) => [tool, schemaOf?.(tool)] as const)
  const unknown = schemas.length === 0 || schemas.some(([, schema]) => schema === undefined)
  const found = schemas.flatMap(([tool, schema]) =>
    schema === undefined ? [] : checkBySchema(source, path, { vars, schema }, tool),
  )
  if (!unknown) return found
  const message = 'args unchecked: no definition of the tool is pinned'
  return [...found, { path, message, severity: 'note' }]
}

function checkBySchema(
  source: string,
  path: readonly (string | number)[],
  declarations: { readonly vars: Readonly<Record<string, unknown>>; readonly schema: unknown },
  tool: string,
): ConfigConflict[] {
  let optional: readonly string[] = []
  const mistakes = attempt(path, () => {
    optional = compileExpression(source, declarations).optional
  })
  const warnings = optional.map((read): ConfigConflict => {
    const message = `${read} is optional in the schema of ${tool}: without it a condition has an error; ask by has(${read}) if it may be absent`
    return { path, message, severity: 'warning' }
  })
  return [...mistakes, ...warnings]
}

/** The mistake in the text of an expression, at its character. */
function attempt(path: readonly (string | number)[], compile: () => unknown): ConfigConflict[] {
  try {
    compile()
    return []
  } catch (error) {
    if (!(error instanceof ExpressionError)) throw error
    return [{ path, message: error.message, offset: error.at }]
  }
}
