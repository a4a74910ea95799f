// The `runtime` section: a runtime decides on findings in place of the policy's `deny_on`.
import { definePlugin, externalDecision, identity, redactor, sideEffects, tokens } from '@svc/core'
import { runtimeSchema } from './config.js'
import { evaluationSource } from './evaluation-source.js'
import { metrics } from './metrics.js'
import { RuntimeStage } from './stage.js'

export const runtimePlugin = definePlugin({
  name: 'runtime',
  version: '0.1.0',
  core: '^1.0.0',
  schema: runtimeSchema,
  phase: 'evaluation',
  metrics,
  owns: [
    {
      token: tokens.DecisionEvaluator,
      chosenBy: [
        ['enforcement', 'mode'],
        ['enforcement', 'remote', 'endpoint'],
      ],
    },
  ],
  uses: [identity, redactor, sideEffects],
  provides: [externalDecision],
  facts: ({ enforcement: { mode } }) => (mode === 'remote' ? { asksRuntime: true } : {}),
  check: ({ enforcement: { mode, remote } }) =>
    mode === 'remote' || remote?.endpoint === undefined
      ? []
      : [
          {
            path: ['runtime', 'enforcement', 'remote', 'endpoint'],
            message: 'has no effect without mode: remote',
            severity: 'warning',
          },
        ],

  create(config, context) {
    const { remote } = config.enforcement
    if (remote?.endpoint?.startsWith('http:') === true && remote.allowInsecureHttp === true) {
      context.warn('runtime.enforcement.remote.endpoint: over plain http, decisions can be forged in transit')
    }
    return new RuntimeStage(evaluationSource(config, context))
  },
})
