// The admin listener: a server on a port of its own, so that callers of the gateway cannot reach the operators' API.
import { resolve, tokens } from '@svc/core'
import { messageOf } from '@svc/core/json'
import type { KeyReader } from '@svc/core/secret'
import type { DependencyContainer } from 'tsyringe'
import { AllowedHosts } from '../http/allowed-hosts.js'
import { HttpServer } from '../http/server.js'
import { Certificates } from '../http/tls/certificates.js'
import type { ActivePolicy } from '../policy/active-policy.js'
import type { AdminConfig } from '../policy/admin-config.js'
import { type GatewayMetrics, gatewayMetrics } from '../telemetry/metrics/gateway-metrics.js'
import { adminMetrics } from '../telemetry/metrics/metric-table.js'
import { AdminHandler, type AdminHandlerOptions } from './handler.js'
import { openApiOperation } from './openapi.js'
import { type Operation, operation, PlainResponse } from './operation.js'
import type { AdminConsole } from './session.js'
import { sessionOperations } from './session.js'

const limits = {
  maxHeaderBytes: 16_384,
  headersTimeoutMs: 10_000,
  requestTimeoutMs: 15_000,
  keepAliveTimeoutMs: 30_000,
  maxConnections: 1_000,
}

/** Longest wait for requests that are still running when the gateway closes. */
const drainMs = 1_000

interface WatchedGateway {
  /** The policy in force at this moment. */
  activePolicy(): ActivePolicy
  draining(): boolean
  blockOf: AdminHandlerOptions['blockOf']
  /** The operations of the API, without those that each listener adds. */
  readonly operations: readonly Operation[]
  /** Loads the web pages. */
  readonly console: () => Promise<AdminConsole>
  /** `directories` are those of `KeyReader`. */
  keyReader(directories: readonly string[] | undefined): KeyReader
  /** Metrics of all processes of the gateway in the text format; absent if it is one. */
  readonly metrics?: (() => Promise<string>) | undefined
}

export class Admin {
  #config: AdminConfig
  #container: DependencyContainer
  #options: AdminHandlerOptions
  #keyReader: WatchedGateway['keyReader']
  #server: HttpServer | undefined
  #handler: AdminHandler | undefined
  #certificates: Certificates | undefined

  constructor(config: AdminConfig, container: DependencyContainer, watched: WatchedGateway) {
    const metrics = resolve(container, gatewayMetrics)
    metrics.declare(adminMetrics)
    this.#config = config
    this.#container = container
    this.#keyReader = (directories) => watched.keyReader(directories)
    const text = () => watched.metrics?.() ?? metrics.text()
    const metricsText = { contentType: metrics.contentType, text }
    const operations = allOperations(watched.operations, { metrics: metricsText, console: watched.console })
    this.#options = {
      activePolicy: () => watched.activePolicy(),
      draining: () => watched.draining(),
      blockOf: (identity) => watched.blockOf(identity),
      clock: resolve(container, tokens.Clock),
      ids: resolve(container, tokens.Ids),
      logger: resolve(container, tokens.Logger),
      meter: metrics,
      operations,
      console: watched.console,
    }
  }

  /** Resolves to its URL. Rejects if the address is in use or not of this machine, or the certificate is not valid. */
  async listen(): Promise<string> {
    this.#certificates = await this.#openCertificates()
    const { activePolicy, logger } = this.#options
    const { host, port } = this.#config
    const handler = new AdminHandler(this.#options)
    this.#handler = handler
    // The hosts that count after a reload has removed the admin section.
    const initialHosts = new AllowedHosts(this.#config)
    this.#server = new HttpServer(
      { ...limits, host, port },
      (message, response) => handler.handle(message, response),
      logger,
      {
        allowsHost: (name) => (activePolicy().authorizer?.hosts ?? initialHosts).has(name),
        hostsKey: 'admin.allowedHosts',
        certificates: this.#certificates,
      },
    )
    return (await this.#server.listen()).url
  }

  async #openCertificates(): Promise<Certificates | undefined> {
    const { tls } = this.#config
    if (tls === undefined) return undefined
    try {
      return await Certificates.open(tls, {
        reader: this.#keyReader(tls.dirs),
        clock: resolve(this.#container, tokens.Clock),
        logger: this.#options.logger,
      })
    } catch (cause) {
      throw new Error(`admin.${messageOf(cause)}`, { cause })
    }
  }

  /** Reads the certificate's files now. Never rejects. */
  async refresh(): Promise<void> {
    await this.#certificates?.refresh()
  }

  /** Conditions that an operator must repair. */
  warnings(): string[] {
    return (this.#certificates?.warnings() ?? []).map((warning) => `admin.${warning}`)
  }

  /** Waits for requests in progress. */
  async close(): Promise<void> {
    this.#handler?.close()
    await this.#server?.close(drainMs, drainMs)
  }
}

type MetricsText = Pick<GatewayMetrics, 'contentType' | 'text'>

/** All operations: those of the gateway, and those that each listener adds. */
export function allOperations(
  given: readonly Operation[],
  parts: { readonly metrics: MetricsText; console(): Promise<AdminConsole> },
): Operation[] {
  const all: Operation[] = [
    metricsOperation(() => parts.metrics),
    ...sessionOperations(() => parts.console()),
    ...given,
    openApiOperation(() => all),
  ]
  return all
}

function metricsOperation(metrics: () => MetricsText): Operation {
  return operation({
    method: 'GET',
    path: '/metrics',
    name: 'read_metrics',
    summary: 'Returns the metrics in the text format of Prometheus.',
    access: 'metrics',
    isUnrecorded: true,
    response: 'text',
    async run() {
      const { contentType, text } = metrics()
      return new PlainResponse({ status: 200, headers: { 'content-type': contentType }, body: await text() })
    },
  })
}
