// A gateway without a listener: it gets the messages of one client from this process.
import { isRefusal, type Logger } from '@svc/core'
import { messageOf } from '@svc/core/json'
import type { GatewayBuilder } from '../gateway/builder.js'
import { createRouter, noListener } from '../gateway/call-listener.js'
import { Gateway } from '../gateway/start.js'
import type { ClientExchange } from '../http/client-exchange.js'
import type { McpRoute, Router } from '../routes/router.js'

export class LineGateway {
  #gateway: Gateway
  #router: Router | undefined
  #name: string | undefined
  #logger: Logger

  /** `name` is that of the server or group that the client gets; undefined for all servers. */
  constructor(builder: GatewayBuilder, name: string | undefined) {
    this.#name = name
    this.#logger = builder.logger
    this.#gateway = new Gateway(builder, {
      openListener: async (host, parts) => {
        this.#router = createRouter(host, parts, () => [])
        return noListener
      },
      // The port of the admin listener belongs to the first process of a policy.
      sharesAdmin: true,
    })
  }

  /** Rejects if the gateway cannot start. */
  ready(): ReturnType<Gateway['ready']> {
    return this.#gateway.ready()
  }

  /** Resolves when the response is written. The reason of a rejection may be shown to the client. */
  async send(exchange: ClientExchange, method: McpRoute['method']): Promise<void> {
    try {
      await this.#router?.mcp(exchange, { name: this.#name, method })
    } catch (cause) {
      this.#logger.warn({ reason: messageOf(cause) }, 'response interrupted')
      throw isRefusal(cause) ? cause : new Error('The response was interrupted.', { cause })
    }
  }

  close(): Promise<void> {
    return this.#gateway.close()
  }
}
