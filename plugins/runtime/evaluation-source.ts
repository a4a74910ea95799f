// Creates the evaluator that the section configures: a remote runtime over HTTP, or a `DecisionEvaluator` bound in code.
import { setTimeout as pause } from 'node:timers/promises'
import {
  type DecisionEvaluator,
  type DenyRule,
  type PluginContext,
  policyTokens,
  resolve,
  resolveOptional,
  tokens,
} from '@svc/core'
import { canonicalize, messageOf } from '@svc/core/json'
import { KeyReader } from '@svc/core/secret'
import type { RemoteConfig, RuntimeConfig } from './config.js'
import { CircuitBreaker } from './evaluation/circuit-breaker.js'
import { GuardedEvaluator, RequestSlots } from './evaluation/guarded-evaluator.js'
import { apiKeySource, RemoteEvaluator, RuntimeClient } from './remote/evaluator.js'
import type { EvaluationSource } from './stage.js'

const defaultTimeoutMs = 2000

/** Without an enforcement section every finding denies. */
const denyAll: DenyRule = { mode: 'enforce' }

interface EvaluatorKind {
  connect(): { evaluator: DecisionEvaluator; breaker: CircuitBreaker; release(): Promise<void> }
}

/** Undefined if the policy's own rule decides. */
export function evaluationSource(
  { enforcement }: RuntimeConfig,
  context: PluginContext,
): EvaluationSource | undefined {
  const { container, tenant } = context
  const { mode, failureMode, protocolVersion, remote } = enforcement
  const bound = resolveOptional(container, tokens.DecisionEvaluator)
  let kind: EvaluatorKind
  if (bound !== undefined) kind = boundEvaluator(bound, context)
  else if (mode === 'local' || remote?.endpoint === undefined) return undefined
  else kind = remoteEvaluator(new URL(remote.endpoint), remote, protocolVersion, context)
  let running: DecisionEvaluator | undefined
  return {
    running: () => running,
    failureMode,
    requestOptions: {
      rule: resolveOptional(container, policyTokens.denyRule) ?? denyAll,
      tenant,
      includeArguments: remote?.includeArguments ?? false,
    },
    open: () => {
      const { evaluator, breaker, release } = kind.connect()
      running = evaluator
      const guarded = new GuardedEvaluator({
        evaluator,
        breaker,
        slots: new RequestSlots(),
        refusesFailures: failureMode === 'deny',
        timeoutMs: remote?.timeoutMs ?? defaultTimeoutMs,
        clock: resolve(container, tokens.Clock),
        logger: resolveOptional(container, tokens.Logger),
        meter: resolveOptional(container, tokens.Meter),
      })
      return {
        evaluator: guarded,
        release: () => {
          running = undefined
          return release()
        },
      }
    },
  }
}

function boundEvaluator(evaluator: DecisionEvaluator, context: PluginContext): EvaluatorKind {
  return {
    connect: () => {
      const lease = context.resources.acquire('runtime evaluator', () => {
        const { breaker, unwatch } = createBreaker(context)
        return { value: breaker, close: unwatch }
      })
      return { evaluator, breaker: lease.value, release: () => lease.release() }
    },
  }
}

function remoteEvaluator(
  url: URL,
  remote: RemoteConfig,
  protocolVersion: string,
  context: PluginContext,
): EvaluatorKind {
  const clock = resolve(context.container, tokens.Clock)
  const meter = resolveOptional(context.container, tokens.Meter)
  const reader = new KeyReader(context)
  const { timeoutMs, headers = {} } = remote
  const lowerCased = Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value])
  return {
    connect: () => {
      checkKeyRef(remote, reader)
      const lease = context.resources.acquire(`runtime ${canonicalize({ url: url.href, timeoutMs })}`, () => {
        const endpoint = new RuntimeClient(url, timeoutMs)
        const { breaker, unwatch } = createBreaker(context)
        const close = () => {
          unwatch()
          return endpoint.close()
        }
        return { value: { endpoint, breaker }, close }
      })
      const { endpoint, breaker } = lease.value
      const evaluator = new RemoteEvaluator({
        ...remote,
        endpoint,
        clock,
        apiKey: apiKeySource(remote, reader, clock),
        headers: Object.fromEntries(lowerCased),
        protocolVersion,
        random: Math.random,
        pause: (ms, signal) => pause(ms, undefined, { signal }),
        onRetry: () => meter?.count('svc_runtime_retries_total'),
      })
      return { evaluator, breaker, release: () => lease.release() }
    },
  }
}

/** Throws for a reference that can never be read, so that the gateway does not start with it. */
function checkKeyRef({ apiKeyRef }: RemoteConfig, reader: KeyReader): void {
  if (apiKeyRef === undefined) return
  try {
    reader.locate(apiKeyRef)
  } catch (cause) {
    throw new Error(`runtime.enforcement.remote.apiKeyRef: ${messageOf(cause)}`, { cause })
  }
}

function createBreaker({ container }: PluginContext): { breaker: CircuitBreaker; unwatch: () => void } {
  const logger = resolveOptional(container, tokens.Logger)
  const breaker = new CircuitBreaker(resolve(container, tokens.Clock), (isOpen) => {
    if (isOpen) logger?.error({}, 'the runtime cannot be reached or fails for several callers')
    else logger?.warn({}, 'the runtime decides again')
  })
  const meter = resolveOptional(container, tokens.Meter)
  const unwatch = meter?.watch?.('svc_runtime_circuit_open', () => Number(breaker.isOpen))
  return { breaker, unwatch: () => unwatch?.() }
}
