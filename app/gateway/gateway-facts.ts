// The facts that this process of the gateway knows about itself; the admin listener asks all processes for them.
import { resolveOptional, services } from '@svc/core'
import { type AskProcesses, healthParts, type ProcessFacts } from '../console/process-facts.js'
import { gatewayMetrics } from '../metrics/gateway-metrics.js'
import type { TargetServers } from '../stdio-targets/servers.js'
import type { ShadowStatus } from './gateway-shadow.js'
import type { Policies } from './policies.js'

export interface GatewayFacts extends ProcessFacts {
  /** Null if the policy names no shadow policy. */
  shadow(): ShadowStatus | null
}

interface RunningParts {
  readonly policies: Policies
  readonly servers: TargetServers
}

/** `running` is called when a fact is asked for. */
export function gatewayFacts(running: () => RunningParts): GatewayFacts {
  const container = () => running().policies.current.container
  return {
    recentCall: (spanId) => resolveOptional(container(), gatewayMetrics)?.stages.recent.find(spanId) ?? null,
    limitsInUse: () => resolveOptional(container(), services.limitsInUse)?.() ?? [],
    healthParts: () => healthParts(running().policies.current.pipeline),
    stateOf: (server) => running().servers.stateOf(server) ?? null,
    shadow: () => running().policies.shadow?.status ?? null,
  }
}

export function factOf(facts: GatewayFacts, name: keyof GatewayFacts, args: readonly unknown[]): unknown {
  return Reflect.apply(facts[name], undefined, args)
}

/** Asks the one process of a gateway without workers. */
export function askOne(facts: GatewayFacts): AskProcesses<GatewayFacts> {
  return async <Name extends keyof GatewayFacts>(name: Name, ...args: Parameters<GatewayFacts[Name]>) => [
    factOf(facts, name, args) as ReturnType<GatewayFacts[Name]>,
  ]
}
