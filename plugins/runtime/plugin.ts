// The `runtime` section: a runtime decides on findings in place of the policy's `deny_on`.
import {
  answerChange,
  bind,
  bindDefault,
  definePlugin,
  externalDecision,
  identity,
  lateBound,
  redactor,
  resolveOptional,
  sideEffects,
  token,
  tokens,
} from '@svc/core'
import { KeyReader } from '@svc/core/secret'
import { runtimeSchema } from './config.js'
import { checkRuntime } from './doctor.js'
import { evaluationSource } from './evaluation-source.js'
import { metrics } from './metrics.js'
import { type EvaluationSource, RuntimeStage } from './stage.js'

const evaluation = token<EvaluationSource>('runtime/EvaluationSource')

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
      selectedBy: [
        ['enforcement', 'mode'],
        ['enforcement', 'remote', 'endpoint'],
      ],
    },
  ],
  uses: [identity, redactor, sideEffects],
  provides: [externalDecision, answerChange],
  facts: ({ enforcement: { mode } }) => (mode === 'remote' ? { asksRuntime: true } : {}),
  check({ enforcement: { mode, remote } }, { place }) {
    const path = ['runtime', 'enforcement', 'remote']
    if (mode !== 'remote') {
      if (remote?.endpoint === undefined) return []
      const message = 'has no effect without mode: remote'
      return [{ path: [...path, 'endpoint'], message, severity: 'warning' }]
    }
    const message = remote?.apiKeyRef && place && new KeyReader(place).fileFault(remote.apiKeyRef)
    return message ? [{ path: [...path, 'apiKeyRef'], message }] : []
  },

  register(config, context) {
    const { container } = context
    const source = evaluationSource(config, context)
    if (source === undefined) return
    bind(container, evaluation, { useValue: source })
    bindDefault(container, tokens.DecisionEvaluator, {
      useValue: lateBound('the evaluator', source.running, { evaluate: 'method' }),
    })
  },

  create(config, context) {
    const { remote } = config.enforcement
    if (remote?.endpoint?.startsWith('http:') === true && remote.allowInsecureHttp === true) {
      context.warn('runtime.enforcement.remote.endpoint: over plain http, decisions can be forged in transit')
    }
    return new RuntimeStage(resolveOptional(context.container, evaluation))
  },

  doctor: checkRuntime,
})
