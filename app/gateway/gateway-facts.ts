// The facts that operators see of this process of a gateway.
import { resolveOptional, services } from '@svc/core'
import { healthParts, type ProcessFacts } from '../console/process-facts.js'
import type { StdioServers } from '../stdio/targets/servers.js'
import { gatewayMetrics } from '../telemetry/metrics/gateway-metrics.js'
import type { ShadowStatus } from './gateway-shadow.js'
import type { Policies } from './policies.js'

export interface GatewayFacts extends ProcessFacts {
  /** Undefined if the policy names no shadow policy. */
  shadow(): ShadowStatus | undefined
}

interface RunningGateway {
  readonly policies: Policies
  readonly servers: StdioServers
}

/** `running` is called when a fact is asked for. */
export function gatewayFacts(running: () => RunningGateway): GatewayFacts {
  const container = () => running().policies.current.container
  return {
    recentCall: (spanId) => resolveOptional(container(), gatewayMetrics)?.stages.recent.find(spanId),
    limitsInUse: () => resolveOptional(container(), services.limitsInUse)?.() ?? [],
    healthParts: () => healthParts(running().policies.current.pipeline),
    stateOf: (server) => running().servers.stateOf(server),
    shadow: () => running().policies.shadow?.status,
  }
}
