// The pipeline in front of the handlers of an MCP server of one's own.
import { type Appender, bind, resolve, tokens } from '@svc/core'
import { formatNameSegment } from '@svc/core/match'
import type { DependencyContainer } from 'tsyringe'
import type { GatewaySettings, PipelineOptions } from '../../gateway/options.js'
import { UNVERSIONED } from '../../mcp/server-versions.js'
import type { CallContext } from '../governed.js'
import { addressInProcess, type EmbeddedPipeline, InProcessPipeline } from '../pipeline.js'
import { GovernedConnection } from './connection.js'
import { ConfiguredPipeline, serverPipeline } from './server-pipeline.js'
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
  /** Puts a new policy in force for the messages that follow, of all servers of the pipeline. */
  reload(policy: string | Record<string, unknown>): Promise<void>
  /**
   * Waits for calls in flight, then closes keys, logs and stores. While another server of an equal configuration has a
   * connection, they stay open until the last one ends. Closes neither the server nor a pipeline that the program has made.
   */
  close(): Promise<void>
  readonly container: DependencyContainer
}

/**
 * Puts the pipeline of a policy in front of an `McpServer` or `Server` of the MCP SDK (versions 1 and 2), for every
 * connection that it opens from now on, over any transport: lists are filtered, calls are judged, limited and recorded,
 * as a gateway does it. Tools may be registered before or after. Tools are `mcp://<name>/<tool>@<version>`, with name
 * and version of the server's `serverInfo`.
 *
 * A program that makes a server for each session or request passes the one pipeline that it has made (`createPipeline`).
 * Servers with equal configurations share a pipeline; functions in them are equal if they are the same function.
 *
 * Throws `PolicyError` like `startGatewayServer`.
 */
export function governServer(
  server: McpServerLike,
  pipeline: EmbeddedPipeline | PipelineOptions,
  options: GovernServerOptions = {},
): GovernedServer {
  const named = namedServer(server, options)
  if ('run' in pipeline) {
    if (!(pipeline instanceof InProcessPipeline)) throw new TypeError('the pipeline is not of createPipeline')
    interceptServer(named, pipeline, options, { recordsOnly: false })
    return handleOf(pipeline, async () => undefined)
  }
  const shared = ConfiguredPipeline.of(settingsOf(named, pipeline))
  interceptServer(named, shared.pipeline, options, {
    recordsOnly: false,
    opened: (connection) => shared.opened(connection, server),
    ended: (connection) => shared.ended(connection),
  })
  return handleOf(shared.pipeline, () => shared.close(server))
}

interface NamedServer {
  readonly server: McpServerLike
  readonly name: string
  readonly version: string | undefined
  /** The upstream that `deliveries` replace. */
  readonly upstream: URL
}

function namedServer(server: McpServerLike, options: GovernServerOptions): NamedServer {
  const info = serverInfoOf(server)
  const name = options.name ?? info.name
  if (name === undefined || name === '') throw new TypeError('the server has no name; pass options.name')
  return { server, name, version: info.version, upstream: addressInProcess(formatNameSegment(name)) }
}

/** The server is the only target, by which the policy's names are checked. */
function settingsOf({ name, upstream }: NamedServer, config: PipelineOptions): GatewaySettings {
  return { ...config, targets: { [name]: upstream.href } }
}

function handleOf(pipeline: InProcessPipeline, close: () => Promise<void>): GovernedServer {
  return {
    ready: () => pipeline.ready(),
    reload: (policy) => pipeline.reload(policy),
    close,
    container: pipeline.container,
  }
}

interface Interception {
  readonly recordsOnly: boolean
  opened?(connection: GovernedConnection): void
  ended?(connection: GovernedConnection): void
}

function interceptServer(
  { server, name, version, upstream }: NamedServer,
  pipeline: InProcessPipeline,
  options: GovernServerOptions,
  { recordsOnly, opened, ended }: Interception,
): void {
  const { bindings, host, logger } = pipeline.builder
  const shared = serverPipeline(pipeline, recordsOnly)
  shared.deliveries.add(upstream, { name, version: version ?? '' })
  const contextOf = options.contextOf ?? ((extra) => authenticatedClient(extra, host.tenant))
  const parts = {
    ...shared,
    pipeline,
    server: name,
    version: version ?? UNVERSIONED,
    recordsOnly,
    upstream,
    ids: resolve(bindings, tokens.Ids),
    clock: resolve(bindings, tokens.Clock),
    logger,
    contextOf,
  }
  interceptConnections(server, (send) => {
    const connection = new GovernedConnection({ ...parts, onClosed: () => ended?.(connection) }, send)
    opened?.(connection)
    return connection
  })
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
  const named = namedServer(server, options)
  const pipeline = new InProcessPipeline(settingsOf(named, config))
  interceptServer(named, pipeline, options, { recordsOnly: true })
  return pipeline
}

/** The appender without its `close`. */
function withoutClose(appender: Appender): Appender {
  return {
    append: (envelope) => appender.append(envelope),
    ready: async () => appender.ready?.(),
    status: () => appender.status?.() ?? { writable: true },
  }
}
