// Creates what sends calls upstream: the dispatcher, the MCP servers, and the MCP proxy that uses them.
import { bindDefault, type MaybePromise, resolve, tokens } from '@svc/core'
import type { DependencyContainer } from 'tsyringe'
import { HttpServers } from '../mcp/http-servers.js'
import { AnnotationCache } from '../mcp/learned-values.js'
import { gatewayImplementation } from '../mcp/protocol.js'
import { McpProxy } from '../mcp/proxy.js'
import type { McpServers } from '../mcp/servers.js'
import type { SessionBinding } from '../mcp/session-binding.js'
import type { SharedState } from '../mcp/shared-state.js'
import type { HostConfig } from '../policy/config.js'
import { StdioServers } from '../stdio/targets/servers.js'
import { type UpstreamDispatcher, upstreamDispatcher } from '../upstream/dispatcher.js'
import { UndiciDispatcher } from '../upstream/undici.js'

/** A larger response streams; a smaller one is held back until its record is durable. */
const wholeUpToBytes = 1024 * 1024

/** Time for which an event may hold room until it is complete, and time limit for the gateway's own requests. */
const unfinishedMs = 300_000
const ownRequestMs = 60_000

/** A dispatcher that the user bound wins. */
export function createDispatcher(
  container: DependencyContainer,
  server: HostConfig['server'],
): UpstreamDispatcher {
  bindDefault(container, upstreamDispatcher, {
    useFactory: () =>
      new UndiciDispatcher({
        connectTimeoutMs: server.connectTimeoutMs,
        headersTimeoutMs: server.upstreamTimeoutMs,
        idleTimeoutMs: server.upstreamIdleMs,
        wholeUpToBytes,
      }),
  })
  return resolve(container, upstreamDispatcher)
}

/** Sends to targets that are commands over stdio, and to all others over `dispatcher`. */
export function createServers(
  container: DependencyContainer,
  server: HostConfig['server'],
  dispatcher: UpstreamDispatcher,
): StdioServers {
  const clock = resolve(container, tokens.Clock)
  return new StdioServers({
    http: new HttpServers(dispatcher, server.upstreamIdleMs ?? unfinishedMs, clock),
    clock,
    logger: resolve(container, tokens.Logger),
    meter: resolve(container, tokens.Meter),
    client: gatewayImplementation,
    maxMessageBytes: server.maxResponseBytes,
    responseTimeoutMs: server.upstreamTimeoutMs,
  })
}

/** The state of an MCP proxy, shared by all gateways or its own. */
interface McpMemory {
  readonly state: SharedState
  /** Annotations that exist before the proxy, as a pipeline may run before its first server. */
  readonly annotations?: AnnotationCache
  /** Rejects if the key of sessions cannot be read. */
  readonly sessions: () => MaybePromise<SessionBinding>
}

export function createMcpProxy(
  container: DependencyContainer,
  server: HostConfig['server'],
  servers: McpServers,
  { state, sessions, annotations: given }: McpMemory,
): McpProxy {
  const clock = resolve(container, tokens.Clock)
  const annotations = given ?? new AnnotationCache(state, clock)
  bindDefault(container, tokens.ToolAnnotations, { useValue: annotations })
  return new McpProxy({
    state,
    sessions,
    servers,
    clock,
    ids: resolve(container, tokens.Ids),
    annotations,
    maxResponseBytes: server.maxResponseBytes,
    streams: {
      keepAliveMs: server.mcp.keep_alive_ms,
      abandonedMs: server.mcp.abandoned_ms,
      abandonedBytes: server.mcp.abandoned_bytes,
    },
    client: gatewayImplementation,
    probeTimeoutMs: server.upstreamTimeoutMs ?? ownRequestMs,
    passParams: server.mcp.pass_params,
    denials: server.mcp.denials,
  })
}
