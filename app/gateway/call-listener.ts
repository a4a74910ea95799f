// The port for callers: its HTTP server, router and certificates.
import { resolve, tokens } from '@svc/core'
import { messageOf } from '@svc/core/json'
import { TenantCallLimit, TenantConnections } from '../budget/use-limit.js'
import { LimitedLogger } from '../http/limited-logger.js'
import { HttpServer } from '../http/server.js'
import { Certificates } from '../http/tls/certificates.js'
import type { McpProxy } from '../mcp/proxy.js'
import type { HostConfig } from '../policy/config.js'
import { Router } from '../routes/router.js'
import type { UpstreamDispatcher } from '../upstream/dispatcher.js'
import type { GatewayBuilder } from './builder.js'
import type { Policies } from './policies.js'

/** Longest wait for handlers after their connections were closed. */
const closeMs = 1_000

export interface CallListenerOptions {
  readonly builder: GatewayBuilder
  readonly policies: Policies
  readonly mcp: McpProxy
  readonly upstream: UpstreamDispatcher
  /** Whether other processes may listen on the port too. */
  readonly reusePort: boolean
  /** Warnings for the operator about the other listener and the targets. */
  warnings(): string[]
}

/** The source of requests. */
export interface Listener {
  /** Rejects if the address is in use or not of this machine. */
  listen(): Promise<{ port: number; url: string }>
  /** Reads the files of the certificate after a reload. Never rejects. */
  refresh(): Promise<void>
  stopListening(): void
  close(): Promise<void>
}

/** The listener of a gateway that gets its requests from the program around it. */
export const noListener: Listener = {
  listen: async () => ({ port: 0, url: '' }),
  refresh: async () => undefined,
  stopListening: () => undefined,
  close: async () => undefined,
}

/** `warnings` are those of the listener itself. */
export function createRouter(
  host: HostConfig,
  options: CallListenerOptions,
  warnings: () => string[],
): Router {
  const { builder, policies, mcp, upstream } = options
  const { bindings, logger } = builder
  const { server, tenant } = host
  const clock = resolve(bindings, tokens.Clock)
  return new Router({
    clock,
    ids: resolve(bindings, tokens.Ids),
    tenant,
    logger,
    limitedLogger: new LimitedLogger(logger, clock),
    maxBodyBytes: server.maxBodyBytes,
    keepAliveMs: server.mcp.keep_alive_ms,
    maxHoldMs: server.mcp.elicit_ms,
    isHandshakeOnly: server.mcp.revisions === 'handshake',
    mcp,
    upstream,
    tenantCallLimit: new TenantCallLimit(server.maxCallsPerTenant, 'calls in flight'),
    tenantStreamLimit: new TenantCallLimit(server.maxStreamsPerTenant, 'streams open'),
    tenantConnections: new TenantConnections(server.maxConnectionsPerTenant),
    policies,
    warnings: () => [...warnings(), ...options.warnings()],
  })
}

/** Rejects if a certificate is not valid. Does not listen yet. */
export async function openCallListener(host: HostConfig, options: CallListenerOptions): Promise<Listener> {
  const { builder, policies, reusePort } = options
  const { server, port } = host
  const { bindings, logger } = builder
  const clock = resolve(bindings, tokens.Clock)
  const certificates =
    server.tls &&
    (await Certificates.open(server.tls, {
      reader: builder.keyReader(host, server.tls.dirs),
      clock,
      logger,
    }).catch((cause: unknown) => {
      throw new Error(`server.${messageOf(cause)}`, { cause })
    }))
  const router = createRouter(host, options, () => certificates?.warnings() ?? [])
  const http = new HttpServer({ ...server, port }, router.handle.bind(router), logger, {
    allowsHost: router.allowsHost.bind(router),
    isProxy: (address) => policies.current.publicUrl.isProxy(address),
    meter: resolve(bindings, tokens.Meter),
    certificates,
    reusePort,
  })
  return {
    listen: () => http.listen(),
    refresh: async () => certificates?.refresh(),
    stopListening: () => http.stopListening(),
    async close() {
      await router.endHeld(closeMs)
      await http.close(closeMs)
    },
  }
}
