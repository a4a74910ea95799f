// The pipeline in front of the handlers of an MCP server of one's own.
import { randomBytes } from 'node:crypto'
import { type Appender, bind, resolve, tokens } from '@svc/core'
import type { DependencyContainer } from 'tsyringe'
import { HeldCalls } from '../../elicitation/held-calls.js'
import type { PipelineOptions } from '../../gateway/options.js'
import { createMcpProxy } from '../../gateway/upstreams.js'
import { UNVERSIONED } from '../../mcp/server-versions.js'
import { SessionBinding } from '../../mcp/session-binding.js'
import { SharedState } from '../../mcp/shared-state.js'
import type { CallContext } from '../governed.js'
import { InProcessPipeline } from '../pipeline.js'
import { GovernedConnection } from './connection.js'
import { Deliveries } from './deliveries.js'
import { interceptConnections, type McpServerLike, type MessageExtra, serverInfoOf } from './transport.js'

/** Options of `governServer`. */
export interface GovernServerOptions {
  /**
   * The caller of a message. By default the client that the transport has authenticated (`authInfo`), with the policy's
   * `tenant`; without such a client the stage `authn` decides by the headers.
   */
  readonly contextOf?: (extra: MessageExtra | undefined) => CallContext
  /** The server's name in references and records; by default that of its `serverInfo`. */
  readonly name?: string
}

/** The result of `governServer`. */
export interface GovernedServer {
  /** Opens keys, logs and stores. Rejects if one cannot be opened; the server then gets no messages. */
  ready(): Promise<void>
  /** Puts a new policy in force for the messages that follow. */
  reload(policy: string | Record<string, unknown>): Promise<void>
  /** Waits for calls in flight, then closes keys, logs and stores. Does not close the server. */
  close(): Promise<void>
  readonly container: DependencyContainer
}

/**
 * Puts the pipeline of a policy in front of an `McpServer` or `Server` of the MCP SDK (versions 1 and 2), for every
 * connection that it opens from now on, over any transport: lists are filtered, calls are judged, limited and recorded,
 * as a gateway does it. Tools may be registered before or after. Tools are `mcp://<name>/<tool>@<version>`, with name
 * and version of the server's `serverInfo`.
 *
 * Throws `PolicyError` like `startGatewayServer`.
 */
export function governServer(
  server: McpServerLike,
  config: PipelineOptions,
  options: GovernServerOptions = {},
): GovernedServer {
  return interceptServer(server, config, options, false)
}

function interceptServer(
  server: McpServerLike,
  config: PipelineOptions,
  options: GovernServerOptions,
  recordsOnly: boolean,
): GovernedServer {
  const info = serverInfoOf(server)
  const name = options.name ?? info.name
  if (name === undefined || name === '') throw new TypeError('the server has no name; pass options.name')
  const upstream = new URL('http://in-process.invalid/')
  const pipeline = new InProcessPipeline({ ...config, targets: { [name]: upstream.href } })
  const { bindings, host } = pipeline.builder
  const deliveries = new Deliveries({ name, version: info.version ?? '' })
  const clock = resolve(bindings, tokens.Clock)
  const sessions = new SessionBinding(randomBytes(32).toString('base64'))
  const state = new SharedState(() => undefined, clock, pipeline.builder.logger)
  const proxy = createMcpProxy(bindings, host.server, deliveries, { state, sessions: () => sessions })
  const { elicit_ms: maxHoldMs, keep_alive_ms: keepAliveMs } = host.server.mcp
  const heldCalls = new HeldCalls({
    rounds: proxy.rounds,
    // A server that is only recorded asks nothing of its clients.
    maxHoldMs: recordsOnly ? 0 : maxHoldMs,
    keepAliveMs,
    activePolicy: () => pipeline.current,
    draining: () => pipeline.isClosing,
  })
  pipeline.onClose = () => heldCalls.close(host.server.drainMs)
  const contextOf = options.contextOf ?? ((extra) => authenticatedClient(extra, host.tenant))
  interceptConnections(server, (send) => {
    const parts = {
      pipeline,
      proxy,
      heldCalls,
      asksClients: !recordsOnly && maxHoldMs > 0,
      deliveries,
      server: name,
      version: info.version ?? UNVERSIONED,
      recordsOnly,
      upstream,
      ids: resolve(bindings, tokens.Ids),
      clock,
      logger: pipeline.builder.logger,
      contextOf,
    }
    return new GovernedConnection(parts, send)
  })
  return pipeline
}

function authenticatedClient(extra: MessageExtra | undefined, tenant: string): CallContext {
  if (extra?.authInfo === undefined) return {}
  const { clientId, scopes } = extra.authInfo
  return { identity: { tenant, clientId, client: clientId, scopes } }
}

/** Options of `instrument`. */
export interface InstrumentOptions extends Pick<GovernServerOptions, 'contextOf' | 'name'> {
  /** The destination of the records: an `SvcAppender`. The caller closes it. */
  readonly appender: Appender
  readonly tenant: string
  /** The name and version of the writer in the records; by default those of the server. */
  readonly gatewayName?: string
  readonly gatewayVersion?: string
}

/**
 * Records each message of an MCP server and does nothing else: every call passes, even one that `governServer` refuses
 * to read. Arguments and results that canonical JSON cannot represent are recorded as `{ "json": … }` with their JSON
 * text. The records continue the client's trace (`traceparent` or `_meta`); the server's handlers get this hop as
 * parent.
 */
export function instrument(
  server: McpServerLike,
  { appender, tenant, gatewayName, gatewayVersion, ...options }: InstrumentOptions,
): GovernedServer {
  const info = serverInfoOf(server)
  const config: PipelineOptions = {
    tenant,
    audit: {
      gatewayName: gatewayName ?? info.name ?? 'mcp-server',
      gatewayVersion: gatewayVersion ?? info.version ?? '0',
    },
    quotas: { adapter: 'memory' },
    authn: { allowUnauthenticated: true },
    entitlements: { default_plan: 'all', plans: { all: { allowlist: ['*'] } }, tenants: {} },
    enforcement: { mode: 'observe' },
    configure: (container) =>
      bind<Appender>(container, tokens.SvcAppender, { useValue: withoutClose(appender) }),
  }
  return interceptServer(server, config, options, true)
}

/** The appender without its `close`. */
function withoutClose(appender: Appender): Appender {
  return {
    append: (envelope) => appender.append(envelope),
    ready: async () => appender.ready?.(),
    status: () => appender.status?.() ?? { writable: true },
  }
}
