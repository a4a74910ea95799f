// The protection `flows`: data with a label does not go where the policy says it must not.

import {
  callLabels,
  identity,
  owned,
  policyTokens,
  resolveOptional,
  responseChange,
  sideEffects,
} from '@svc/core'
import { defined } from '@svc/core/json'
import { defineProtection } from '../shared/protection.js'
import { type FlowsConfig, flowsSchema } from './config.js'
import { FlowsStage, flowReasons } from './stage.js'

export const flowsProtection = defineProtection({
  schema: flowsSchema,
  owns: [
    owned(policyTokens.flowEscalations, ({ flows }: { flows?: FlowsConfig | undefined }) =>
      flows?.effect === 'escalate'
        ? [
            {
              path: ['protections', 'flows'],
              ...defined({ setId: flows.approval_set_id }),
            },
          ]
        : undefined,
    ),
  ],
  reasons: [...flowReasons],
  uses: [identity, sideEffects, callLabels],
  provides: [responseChange],
  metrics: { svc_flow_labels_total: { kind: 'counter', help: 'Labels that callers got with responses.' } },
  /** A preset has no labels of its own: which data is private, only the policy knows. */
  configure(settings) {
    if (settings === undefined) return undefined
    return {
      check(bindings) {
        const labels = new Set([
          ...settings.labels.map(({ label }) => label),
          ...(resolveOptional(bindings, policyTokens.ruleLabels) ?? []),
        ])
        const unnamed =
          settings.unit === 'claim' && resolveOptional(bindings, policyTokens.knowsUnits) !== true
            ? [
                {
                  path: ['protections', 'flows', 'unit'],
                  message: 'needs authn.oidc.unitClaim, the claim with the unit',
                },
              ]
            : []
        const unknown = settings.deny_flow.flatMap(({ from }, index) =>
          labels.has(from)
            ? []
            : [
                {
                  path: ['protections', 'flows', 'deny_flow', index],
                  message: `no call has the label "${from}": neither \`labels\` nor a rule gives it`,
                },
              ],
        )
        const denied = new Set(settings.deny_flow.map(({ from }) => from))
        const idle = [...labels]
          .filter((label) => !denied.has(label))
          .map((label) => ({
            path: ['protections', 'flows', 'deny_flow'],
            message: `no flow has the label "${label}", which \`labels\` or a rule gives`,
            severity: 'warning' as const,
          }))
        return [...unnamed, ...unknown, ...idle]
      },
      create: (context) =>
        new FlowsStage(settings, resolveOptional(context.container, policyTokens.ruleLabels) ?? [], context),
    }
  },
})
