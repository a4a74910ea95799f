// From the section to who is asked: a runtime over HTTP, or the evaluator that code has bound.
import { setTimeout as pause } from 'node:timers/promises'
import {
  type Clock,
  type DecisionEvaluator,
  type DenyRule,
  type PluginContext,
  resolve,
  resolveOptional,
  tokens,
} from '@svc/core'
import { canonicalize, messageOf } from '@svc/core/json'
import { KeyReader } from '@svc/core/secret'
import { CircuitBreaker } from './breaker.js'
import type { RemoteConfig, RuntimeConfig } from './config.js'
import { apiKeyFrom } from './remote/api-key.js'
import { Endpoint } from './remote/endpoint.js'
import { RemoteEvaluator } from './remote/evaluator.js'
import { Runtime } from './runtime.js'
import type { Judge } from './stage.js'

const standardTimeoutMs = 2000

/** Where no enforcement section speaks, every finding denies (decisions.md §3). */
const closed: DenyRule = { mode: 'enforce' }

/** Undefined where the policy's own rule judges. */
export function judgeFrom(section: RuntimeConfig, context: PluginContext): Judge | undefined {
  const bound = resolveOptional(context.container, tokens.DecisionEvaluator)
  const { mode, remote } = section.enforcement
  if (bound !== undefined) return judgeOf(section, context, boundParts(bound, context))
  if (mode === 'local' || remote?.endpoint === undefined) return undefined
  const url = new URL(remote.endpoint)
  return judgeOf(section, context, remoteParts(url, remote, section, context))
}

interface JudgeParts {
  readonly about: string
  fault(): string | undefined
  open(): { evaluator: DecisionEvaluator; breaker: CircuitBreaker; release(): Promise<void> }
}

function judgeOf({ enforcement }: RuntimeConfig, context: PluginContext, parts: JudgeParts): Judge {
  const { container, facts, tenant } = context
  const { failureMode, remote } = enforcement
  return {
    about: parts.about,
    failureMode,
    question: { rule: facts.denies ?? closed, tenant, includeArguments: remote?.includeArguments ?? false },
    fault: () => parts.fault(),
    open: () => {
      const { evaluator, breaker, release } = parts.open()
      const runtime = new Runtime({
        evaluator,
        breaker,
        timeoutMs: remote?.timeoutMs ?? standardTimeoutMs,
        logger: resolveOptional(container, tokens.Logger),
        meter: resolveOptional(container, tokens.Meter),
      })
      return { runtime, release }
    },
  }
}

function boundParts(evaluator: DecisionEvaluator, context: PluginContext): JudgeParts {
  return {
    about: 'the evaluator that code has bound',
    fault: () => undefined,
    open: () => {
      const lease = context.resources.acquire('runtime evaluator', () => ({
        value: breakerOf(context),
        close: () => undefined,
      }))
      return { evaluator, breaker: lease.value, release: () => lease.release() }
    },
  }
}

function remoteParts(
  url: URL,
  remote: RemoteConfig,
  { enforcement }: RuntimeConfig,
  context: PluginContext,
): JudgeParts {
  const clock = resolve(context.container, tokens.Clock)
  const meter = resolveOptional(context.container, tokens.Meter)
  const reader = new KeyReader(context)
  const { timeoutMs, headers = {} } = remote
  const lowered = Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value])
  return {
    about: `the runtime at ${url.origin}${url.pathname}`,
    fault: () => keyFault(remote, reader),
    open: () => {
      const lease = context.resources.acquire(`runtime ${canonicalize({ url: url.href, timeoutMs })}`, () => {
        const endpoint = new Endpoint(url, timeoutMs)
        return { value: { endpoint, breaker: breakerOf(context) }, close: () => endpoint.close() }
      })
      const { endpoint, breaker } = lease.value
      const evaluator = new RemoteEvaluator({
        ...remote,
        endpoint,
        clock,
        key: apiKeyFrom(remote, reader, clock),
        headers: Object.fromEntries(lowered),
        protocolVersion: enforcement.protocolVersion,
        random: Math.random,
        pause: (ms, signal) => pause(ms, undefined, { signal }),
        onRetry: () => meter?.count('svc_runtime_retries_total'),
      })
      return { evaluator, breaker, release: () => lease.release() }
    },
  }
}

function keyFault({ apiKeyRef }: RemoteConfig, reader: KeyReader): string | undefined {
  if (apiKeyRef === undefined) return undefined
  try {
    reader.locate(apiKeyRef)
    return undefined
  } catch (fault) {
    return `runtime.enforcement.remote.apiKeyRef: ${messageOf(fault)}`
  }
}

function breakerOf({ container }: PluginContext): CircuitBreaker {
  const clock: Clock = resolve(container, tokens.Clock)
  const logger = resolveOptional(container, tokens.Logger)
  const meter = resolveOptional(container, tokens.Meter)
  return new CircuitBreaker(clock, (isOpen) => {
    meter?.gauge?.('svc_runtime_circuit_open', isOpen ? 1 : 0)
    if (isOpen) logger?.error({}, 'the runtime failed again and again and is left alone for a while')
    else logger?.warn({}, 'the runtime answers again')
  })
}
