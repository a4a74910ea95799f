// A gateway inside another HTTP server: it shares the listener and leaves other paths to the server.
import type { IncomingMessage, ServerResponse } from 'node:http'
import { denied, type Plugin, resolve, tokens } from '@svc/core'
import { messageOf } from '@svc/core/json'
import type { DependencyContainer } from 'tsyringe'
import { GatewayBuilder, withoutListener } from '../gateway/builder.js'
import {
  type CallListenerOptions,
  createRouter,
  type Listener,
  noListener,
} from '../gateway/call-listener.js'
import type { Listening } from '../gateway/gateway-handle.js'
import type { GatewaySettings, OptionsRequiring, RequiredSection } from '../gateway/options.js'
import { Gateway } from '../gateway/start.js'
import { refuseRequest } from '../http/request-errors.js'
import { writeRefusal } from '../http/response.js'
import type { HostConfig } from '../policy/config.js'

interface Mount {
  /**
   * The path below which the gateway responds, such as `/agents`; other requests go to `next`. Leave it out if the
   * framework strips its own prefix, as Express does. Default: every path.
   */
  readonly prefix?: string
}

/** The options of a gateway without a port, as it shares that of the server. */
export type MountOptions<Plugins extends readonly Plugin[] = readonly Plugin[]> = Mount &
  OptionsRequiring<'tenant' | 'targets' | RequiredSection, Plugins>

/** Connect's signature, as Express has it; in Fastify, call it with `request.raw` and `reply.raw`. */
export type NodeHandler = (
  request: IncomingMessage,
  response: ServerResponse,
  next?: (error?: unknown) => void,
) => void

/** A gateway in a server of the program. */
export interface MountedGateway {
  /** Must be mounted before anything that reads bodies. Requests wait until the gateway is ready. */
  readonly handler: NodeHandler
  /** Resolves when it can serve; rejects if it cannot start, and its requests then get 503. */
  ready(): Promise<Pick<Listening, 'adminUrl'>>
  /** Rejects with `PolicyError`, and the old policy stays. */
  reload(policy: string | Record<string, unknown>): Promise<void>
  /** Refuses new calls, waits for those in flight, and closes the log. Does not close the server. */
  close(): Promise<void>
  readonly container: DependencyContainer
}

/**
 * Throws `PolicyError` like `startGatewayServer`. TLS, time-outs and limits of connections and headers are the server's
 * own; limits of bodies, responses, calls and tenants hold as in a gateway with a listener.
 */
export function mountGateway<const Plugins extends readonly Plugin[] = readonly []>(
  options: MountOptions<Plugins>,
): MountedGateway
export function mountGateway({ prefix = '', ...options }: Mount & GatewaySettings): MountedGateway {
  if (prefix !== '' && !/^(?:\/[A-Za-z0-9._~-]+)+$/.test(prefix)) {
    throw new TypeError('prefix: expected a path like /agents, without a slash at its end')
  }
  return mount(new GatewayBuilder({ port: 0, ...options }, withoutListener(undefined)), prefix)
}

function mount(builder: GatewayBuilder, prefix: string): MountedGateway {
  const listener = new MountedListener(builder)
  const gateway = new Gateway(builder, { openListener: async (host, parts) => listener.open(host, parts) })
  return {
    container: gateway.container,
    ready: () => gateway.ready(),
    reload: (policy) => gateway.reload(policy),
    close: () => gateway.close(),
    handler(request, response, next) {
      const path = urlBelow(prefix, request.url ?? '/')
      if (path === undefined && next !== undefined) return next()
      gateway
        .ready()
        .then(() => listener.handle(Object.assign(request, { url: path ?? request.url }), response))
        .catch((error: unknown) => listener.refuseAll(response, error))
    },
  }
}

/** The URL below the prefix; undefined for another one. */
function urlBelow(prefix: string, url: string): string | undefined {
  if (!url.startsWith(prefix)) return undefined
  const rest = url.slice(prefix.length)
  return rest === '' || rest.startsWith('?') ? `/${rest}` : rest.startsWith('/') ? rest : undefined
}

/** Headers that node drops when they are repeated, unless the server was created with `joinDuplicateHeaders`. */
const dropped = ['authorization', 'content-type', 'host', 'origin'] as const

const bodyConsumed = 'The body was read before the gateway got the request: mount it before body parsers.'

class MountedListener {
  #builder: GatewayBuilder
  #serve: ((request: IncomingMessage, response: ServerResponse) => Promise<void>) | undefined

  constructor(builder: GatewayBuilder) {
    this.#builder = builder
  }

  open(host: HostConfig, parts: CallListenerOptions): Listener {
    const router = createRouter(host, parts, () => [])
    const rule = { allowsHost: (name: string) => parts.policies.current.hosts.has(name) }
    this.#serve = async (request, response) => {
      if (request.readableDidRead) return this.#refuse(response, denied('INTERNAL', bodyConsumed))
      const refusal = describeRepeated(request) ?? refuseRequest(request, host.server.maxHeaders, rule)
      if (refusal === undefined) return router.handle(request, response)
      resolve(this.#builder.bindings, tokens.Meter).count('svc_http_refusals_total')
      this.#refuse(response, denied('BAD_REQUEST', refusal))
    }
    // The listener and the certificates belong to the server; the router refuses calls while it drains.
    return { ...noListener, close: async () => this.#close() }
  }

  async handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    await this.#serve?.(request, response)
  }

  /** Called when the gateway did not start, or a response was interrupted. */
  refuseAll(response: ServerResponse, error: unknown): void {
    this.#builder.logger.warn({ reason: messageOf(error) }, 'response interrupted')
    if (response.headersSent) response.destroy()
    else this.#refuse(response, denied('DRAINING', 'The gateway is not running.'))
  }

  #refuse(response: ServerResponse, outcome: ReturnType<typeof denied>): void {
    response.setHeader('connection', 'close')
    writeRefusal(response, outcome, resolve(this.#builder.bindings, tokens.Ids).traceId())
  }

  #close(): void {
    this.#serve = async (_request, response) =>
      this.#refuse(response, denied('DRAINING', 'The gateway is shutting down.'))
  }
}

function describeRepeated(request: IncomingMessage): string | undefined {
  const name = dropped.find((header) => (request.headersDistinct[header]?.length ?? 0) > 1)
  return name === undefined ? undefined : `${name}: given more than once.`
}
