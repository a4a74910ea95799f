// The `runtime` section: a runtime decides on findings in place of the policy's `deny_on`.
import {
  bind,
  bindDefault,
  checkServer,
  checkUsable,
  type DoctorCheck,
  declareMetrics,
  definePlugin,
  externalDecision,
  hostOf,
  identity,
  type MetricEntry,
  owned,
  type PluginContext,
  policyTokens,
  redactor,
  resolve,
  resolveOptional,
  responseChange,
  sideEffects,
  token,
  tokens,
} from '@svc/core'
import { KeyReader } from '@svc/core/secret'
import { type RuntimeConfig, runtimeSchema } from './config.js'
import { evaluationSource } from './evaluation-source.js'
import { apiKeySource } from './remote/evaluator.js'
import { type EvaluationSource, RuntimeStage } from './stage.js'

const evaluation = token<EvaluationSource>('runtime/EvaluationSource')

const metrics: Readonly<Record<string, MetricEntry>> = {
  svc_runtime_evaluations_total: { kind: 'counter', help: 'Calls sent to the runtime for evaluation.' },
  svc_runtime_failures_total: { kind: 'counter', help: 'Evaluations without a valid decision.' },
  svc_runtime_retries_total: { kind: 'counter', help: 'Retried evaluation requests.' },
  svc_runtime_skipped_total: {
    kind: 'counter',
    help: 'Calls not evaluated because a circuit to the runtime was open.',
  },
  svc_runtime_circuit_open: {
    kind: 'gauge',
    help: '1 while the runtime cannot be connected to or fails for several callers, else 0.',
  },
}

export const runtimePlugin = definePlugin({
  name: 'runtime',
  version: '1.0.0',
  core: '^1.0.0',
  schema: runtimeSchema,
  phase: 'evaluation',
  owns: [
    {
      token: tokens.DecisionEvaluator,
      selectedBy: [
        ['enforcement', 'mode'],
        ['enforcement', 'remote', 'endpoint'],
      ],
      bind(config: RuntimeConfig, context: PluginContext) {
        const { container } = context
        const source = evaluationSource(config, context)
        if (source === undefined) return
        bind(container, evaluation, { useValue: source })
        bindDefault(container, tokens.DecisionEvaluator, { useCurrent: source.running })
      },
    },
    owned(policyTokens.asksRuntime, ({ enforcement }: RuntimeConfig) => enforcement.mode === 'remote'),
  ],
  uses: [identity, redactor, sideEffects],
  provides: [externalDecision, responseChange],
  check({ enforcement: { mode, remote } }, bindings) {
    const path = ['runtime', 'enforcement', 'remote']
    if (mode !== 'remote') {
      if (remote?.endpoint === undefined) return []
      const message = 'has no effect without mode: remote'
      return [{ path: [...path, 'endpoint'], message, severity: 'warning' }]
    }
    const { place } = hostOf(bindings)
    const message = remote?.apiKeyRef && place && new KeyReader(place).fileError(remote.apiKeyRef)
    return message ? [{ path: [...path, 'apiKeyRef'], message }] : []
  },

  create(config, context) {
    declareMetrics(context.container, metrics)
    const { remote } = config.enforcement
    if (remote?.endpoint?.startsWith('http:') === true && remote.allowInsecureHttp === true) {
      context.warn('runtime.enforcement.remote.endpoint: over plain http, decisions can be forged in transit')
    }
    const source = resolveOptional(context.container, evaluation)
    return new RuntimeStage(source, () => checkRuntime(config, context))
  },
})

async function checkRuntime(
  { enforcement: { mode, remote } }: RuntimeConfig,
  context: PluginContext,
): Promise<readonly DoctorCheck[]> {
  if (mode !== 'remote' || remote?.endpoint === undefined) return []
  const server = await checkServer('the runtime', remote.endpoint)
  if (remote.apiKeyRef === undefined) return server
  const source = apiKeySource(remote, new KeyReader(context), resolve(context.container, tokens.Clock))
  const hint = 'set what runtime.enforcement.remote.apiKeyRef names'
  return [await checkUsable("the runtime's API key", hint, source), ...server]
}
