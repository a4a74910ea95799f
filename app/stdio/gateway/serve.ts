// A gateway for one client, over the standard input and output of this process.
import type { Readable, Writable } from 'node:stream'
import { setTimeout as delay } from 'node:timers/promises'
import {
  bind,
  isRefusal,
  type Logger,
  type Redactor,
  resolveOptional,
  type SignInIssuer,
  services,
  tokens,
} from '@svc/core'
import { ALL_SERVERS_PATH } from '@svc/core/http'
import { messageOf } from '@svc/core/json'
import { stdioClient } from '@svc/plugin-authn'
import type { DependencyContainer } from 'tsyringe'
import { GatewayBuilder } from '../../gateway/builder.js'
import { createRouter, noListener } from '../../gateway/call-listener.js'
import type { GatewaySettings } from '../../gateway/options.js'
import { Gateway } from '../../gateway/start.js'
import type { ClientExchange } from '../../http/client-exchange.js'
import type { HostConfig, Policy } from '../../policy/config.js'
import type { McpRoute, Router } from '../../routes/router.js'
import { LineSplitter } from '../targets/line-splitter.js'
import { Bridge } from './bridge.js'
import { forOneClient, type ServerCommand } from './command-target.js'
import type { Credentials } from './endpoint-session.js'

export interface StdioGatewayOptions {
  readonly policy: Pick<GatewaySettings, 'policyYaml' | 'policyFile' | 'sec0Dir'>
  /** A server beside the targets of the policy. */
  readonly command: ServerCommand | undefined
  /** The working directory of commands whose target has none; undefined: the directory of the policy. */
  readonly cwd?: string
  /** The server or group of the MCP endpoint that the client gets; undefined for all servers. */
  readonly name: string | undefined
  readonly input: Readable
  readonly output: Writable
  readonly logger: Logger
  /** Binds what the command adds. */
  configure?(container: DependencyContainer): void
  /** Gives the credentials for an endpoint that needs tokens. */
  credentials(issuer: SignInIssuer, host: HostConfig): Credentials
}

/** The running gateway. */
export interface StdioGateway {
  /** The endpoint that the client gets. */
  readonly path: string
  readonly policy: Policy
  /** Redacts the log as the records; returns undefined if identities are not redacted. */
  redactor(): Redactor | undefined
  /** The URL of the admin listener, if it is in this process. */
  readonly adminUrl: string | undefined
  /** Resolves when the client has closed its end, and every request has its response. */
  readonly ended: Promise<void>
  /** Ends what runs, including the servers' processes. */
  close(): Promise<void>
}

/** Throws `PolicyError`. Rejects if the gateway cannot start. */
export async function serveStdio(options: StdioGatewayOptions): Promise<StdioGateway> {
  const { policy, command, cwd, name, input, output, logger } = options
  const builder = new GatewayBuilder(
    {
      port: 0,
      targets: {},
      ...policy,
      configure: (container) => {
        bind<Logger>(container, tokens.Logger, { useValue: logger })
        bind(container, stdioClient, { useValue: true })
        options.configure?.(container)
      },
    },
    forOneClient(command, cwd),
  )
  const gateway = new LineGateway(builder, name)
  const { adminUrl } = await gateway.ready()
  const effective = await builder.policy()
  const { host } = effective
  const issuer = resolveOptional(builder.container, services.signIn)
  const bridge = new Bridge({
    logger,
    ...(issuer === undefined ? {} : { credentials: options.credentials(issuer, host) }),
    send: (exchange, method) => gateway.send(exchange, method),
    write: (line) => new Promise((resolve) => output.write(`${line}\n`, () => resolve())),
  })
  const { maxBodyBytes, drainMs } = builder.host.server
  return {
    path: name === undefined ? ALL_SERVERS_PATH : `${ALL_SERVERS_PATH}/${name}`,
    policy: effective,
    redactor: () => builder.redactor,
    adminUrl,
    ended: readLines(input, maxBodyBytes, bridge).then(() =>
      Promise.race([bridge.idle(), delay(drainMs, undefined, { ref: false })]),
    ),
    async close() {
      await bridge.close()
      await gateway.close()
    },
  }
}

/** Resolves at the end of the input. */
async function readLines(input: Readable, maxBytes: number, bridge: Bridge): Promise<void> {
  // Longer lines are cut at a length at which the gateway sees that they are too long.
  const lines = new LineSplitter(maxBytes + 1, true)
  try {
    for await (const piece of input) {
      for (const line of lines.push(piece)) if (line.trim() !== '') bridge.receive(line)
    }
  } catch (cause) {
    throw new Error(`the client cannot be read: ${messageOf(cause)}`, { cause })
  }
}

/** A gateway without a listener: it gets the messages of one client from this process. */
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
