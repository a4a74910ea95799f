// The `rules` section: conditions on calls, in the Common Expression Language.

import { createRequire } from 'node:module'
import {
  callLabels,
  definePlugin,
  identity,
  kept,
  owned,
  policyTokens,
  services,
  sideEffects,
} from '@svc/core'
import { defined } from '@svc/core/json'
import { mayEscalate, type RulesConfig, rulesSchema } from './config.js'

/** Required and not imported, as policies are checked synchronously; by its name, which a bundle finds too. */
const onDemand = () =>
  createRequire(import.meta.url)('@svc/plugin-rules/on-demand') as typeof import('./on-demand.js')

export const rulesPlugin = definePlugin({
  name: 'rules',
  version: '1.0.0',
  core: '^1.0.0',
  schema: rulesSchema,
  phase: 'inspection',
  uses: [identity, sideEffects],
  provides: [kept, callLabels],
  owns: [
    owned(services.describedRules, (rules: RulesConfig) =>
      rules.map(({ name, tools = [], require: required, when, then, message, approval_set_id: setId }) => ({
        name,
        tools,
        condition: required ?? when,
        isRequired: required !== undefined,
        effect: then,
        message,
        approvalSetId: setId,
      })),
    ),
    owned(policyTokens.ruleLabels, (rules: RulesConfig) => {
      const labels = new Set(rules.flatMap((rule) => rule.labels ?? []))
      return labels.size === 0 ? undefined : [...labels]
    }),
    owned(policyTokens.ruleEscalations, (rules: RulesConfig) => {
      const escalating = rules.flatMap((rule, index) => {
        const { approval_set_id: setId } = rule
        return mayEscalate(rule) ? [{ path: ['rules', index], ...defined({ setId }) }] : []
      })
      return escalating.length === 0 ? undefined : escalating
    }),
  ],
  check: (rules, bindings) => onDemand().checkRules(rules, bindings),
  create: (rules, context) => onDemand().createRules(rules, context),
})
