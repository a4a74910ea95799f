// The admin listener: a server on a port of its own, so that callers of the gateway cannot reach the operators' API.
import type { IncomingMessage } from 'node:http'
import { AllowedHosts } from '../http/allowed-hosts.js'
import { InFlight } from '../http/in-flight.js'
import { HttpServer } from '../http/server.js'
import type { AdminConfig } from '../policy/admin-config.js'
import type { Certificates } from '../tls/certificates.js'
import { AdminHandler, type AdminHandlerParts } from './handler.js'

const limits = {
  maxHeaderBytes: 16_384,
  headersTimeoutMs: 10_000,
  requestTimeoutMs: 15_000,
  keepAliveTimeoutMs: 30_000,
  maxConnections: 1_000,
}

/** Longest wait for requests that are being answered when the gateway closes. */
const drainMs = 1_000

export class AdminListener {
  #server: HttpServer
  #certificates: Certificates | undefined
  #requests = new InFlight<IncomingMessage>()

  /** Without certificates it serves plain HTTP. It closes the certificates. */
  constructor(config: AdminConfig, parts: AdminHandlerParts, certificates?: Certificates) {
    this.#certificates = certificates
    const handler = new AdminHandler(parts)
    // Used when a reload has removed the admin section.
    const initialHosts = new AllowedHosts(config)
    this.#server = new HttpServer(
      { ...limits, host: config.host, port: config.port },
      async (message, response) => {
        const place = this.#requests.add(message)
        try {
          await handler.handle(message, response)
        } finally {
          this.#requests.delete(place)
        }
      },
      parts.logger,
      {
        allowsHost: (host) => (parts.activePolicy().authorizer?.hosts ?? initialHosts).has(host),
        hostsKey: 'admin.allowedHosts',
        ...(certificates === undefined ? {} : { tls: certificates.serverOptions }),
      },
    )
  }

  /** Resolves to its URL. Rejects when the address is in use or not of this machine. */
  async listen(): Promise<string> {
    const { url } = await this.#server.listen()
    this.#certificates?.watch((context) => this.#server.setSecureContext(context))
    return url
  }

  /** Waits for requests in progress, then closes. */
  async close(): Promise<void> {
    this.#certificates?.close()
    this.#server.stopListening()
    await this.#requests.idle(drainMs)
    await this.#server.close(drainMs)
  }
}
