// The parts of the section beyond its schema, with the library of expressions: loaded by the first policy that has rules.
import { hostOf, type PluginContext, resolve, resolveOptional, tokens } from '@svc/core'
import type { RulesConfig } from './config.js'
import { compilePolicyRule } from './rule.js'
import { RulesStage } from './stage.js'
import { policyVars } from './variables.js'

export { checkRules } from './check.js'

export function createRules(config: RulesConfig, { container, targets, tenant }: PluginContext): RulesStage {
  const vars = policyVars(hostOf(container).vars)
  const rules = config.map((rule) => compilePolicyRule(rule, vars.common))
  const readsAnnotations = rules.some(({ expression }) => expression?.mentions('tool.annotations') === true)
  const annotations = readsAnnotations
    ? resolveOptional(container, tokens.ToolAnnotations)?.among(targets)
    : undefined
  return new RulesStage(rules, { vars, annotations, tenant }, resolve(container, tokens.Clock))
}
