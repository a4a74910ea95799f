// One policy in force: its pipeline and targets. A reload creates the next; a call ends under the policy it began with.
import {
  type Call,
  type Credential,
  isPending,
  type MaybePromise,
  type Outcome,
  policyTokens,
  Refusal,
  type RequestedResource,
  resolveOptional,
  services,
} from '@svc/core'
import { ALL_SERVERS_PATH, resourceUrl } from '@svc/core/http'
import type { CallControl, Pipeline } from '@svc/core/pipeline'
import type { DependencyContainer } from 'tsyringe'
import { AllowedHosts } from '../http/allowed-hosts.js'
import { AllowedOrigins } from '../http/allowed-origins.js'
import { InFlight } from '../http/in-flight.js'
import { PublicUrl } from '../http/public-url.js'
import { mcpExchange } from '../mcp/exchange.js'
import { LISTEN_METHOD } from '../mcp/subject.js'
import { addressesOf } from '../stdio/targets/config.js'
import type { CallMetrics } from '../telemetry/metrics/gateway-state.js'
import { type Target, targetOf } from '../upstream/target.js'
import type { AdminAuthorizer } from './admin-authorizer.js'
import type { HostConfig } from './config.js'
import type { FederationConfig } from './federation-config.js'

/** Longest wait for the records and responses of aborted calls. */
const abortedMs = 5_000

/** Servers that a message names. */
const maxNamed = 20

/** The parts for operators; empty if there are none. */
interface CallListeners {
  readonly authorizer?: AdminAuthorizer | undefined
  readonly calls?: CallMetrics | undefined
  /** Gets every call and its outcome once the response is written. */
  readonly ended?: ((call: Call, outcome: Outcome) => void) | undefined
}

/** A call with the client that waits for its response. */
export interface ServedCall {
  readonly call: CallControl
  /** Writes the outcome. */
  respond(outcome: Outcome): MaybePromise<void>
  /** Runs in any case, once the response is written. */
  ended(): void
}

/** The policies of a running gateway. */
export interface PoliciesInForce {
  /** The policy in force at this moment. */
  readonly current: ActivePolicy
  /** Whether the gateway is shutting down. */
  readonly isDraining: boolean
}

export class ActivePolicy {
  readonly pipeline: Pipeline
  /** The bindings of its plugins. */
  readonly container: DependencyContainer
  readonly publicUrl: PublicUrl
  readonly hosts: AllowedHosts
  readonly origins: AllowedOrigins
  /** Undefined if the policy has no admin section. */
  readonly authorizer: AdminAuthorizer | undefined
  readonly federation: FederationConfig
  /** Hard cap on the response to one call. */
  readonly maxResponseBytes: number
  /** The names of the servers, for callers; undefined if a name may be a secret to some of them. */
  readonly knownServers: string | undefined
  /** The credential for the gateway's own requests to a server. */
  readonly ownCredential: (server: string) => Promise<Credential | undefined>
  readonly #metrics: CallMetrics | undefined
  readonly #ended: CallListeners['ended']
  readonly #targets: ReadonlyMap<string, Target>
  readonly #configured: HostConfig['targets']
  #calls = new InFlight<CallControl>()
  #requests = new InFlight<true>()
  #waits = new InFlight<AbortController>()

  constructor(
    { pipeline, container }: { readonly pipeline: Pipeline; readonly container: DependencyContainer },
    { targets, server, federation }: Pick<HostConfig, 'targets' | 'server' | 'federation'>,
    { authorizer, calls, ended }: CallListeners = {},
  ) {
    this.#ended = ended
    this.pipeline = pipeline
    this.container = container
    this.publicUrl = new PublicUrl(server)
    this.hosts = new AllowedHosts(server)
    this.origins = new AllowedOrigins(server)
    this.authorizer = authorizer
    this.federation = federation
    this.maxResponseBytes = server.maxResponseBytes
    this.ownCredential = resolveOptional(container, services.ownCredential) ?? (async () => undefined)
    this.#metrics = calls
    this.#configured = targets
    const needsToken = resolveOptional(container, policyTokens.needsToken) !== false
    this.knownServers = needsToken ? undefined : describeServers(Object.keys(targets))
    this.#targets = new Map(
      Object.entries(addressesOf(targets)).map(([name, address]) => [name, targetOf(address)]),
    )
  }

  /** Throws `Refusal` (`TARGET_NOT_FOUND`). */
  target(server: string): Target {
    const target = this.#targets.get(server)
    if (target !== undefined) return target
    const known = this.knownServers
    const help = known === undefined ? `; ${ALL_SERVERS_PATH} serves those that you may use.` : `. ${known}`
    throw new Refusal('TARGET_NOT_FOUND', `No such server is configured${help}`)
  }

  /** Whether the server is a command that the gateway starts. */
  isCommand(server: string): boolean {
    return this.startTimeoutMs(server) > 0
  }

  /** Time that the server has to start, in milliseconds; 0 if the gateway does not start it. */
  startTimeoutMs(server: string): number {
    const target = Object.hasOwn(this.#configured, server) ? this.#configured[server] : undefined
    return typeof target === 'object' ? target.start_timeout_ms : 0
  }

  /** The endpoint of /mcp. */
  get allServers(): RequestedResource {
    return { path: ALL_SERVERS_PATH, servers: this.federation.servers ?? [...this.#targets.keys()] }
  }

  /** The endpoint of a group; undefined if no group has this name. */
  group(name: string): RequestedResource | undefined {
    const { groups } = this.federation
    const servers = Object.hasOwn(groups, name) ? groups[name] : undefined
    return servers === undefined ? undefined : { path: resourceUrl('', name), servers }
  }

  /** Runs a call; the stages do not stop before its response is written. */
  async serve(served: ServedCall): Promise<void> {
    const { call } = served
    const place = this.#calls.add(call)
    this.#metrics?.begin(call, this.#targets, isListening)
    try {
      const outcome = await this.pipeline.run(call)
      const written = served.respond(outcome)
      if (isPending(written)) await written
      this.#ended?.(call, outcome)
    } finally {
      this.#metrics?.end()
      this.#calls.delete(place)
      served.ended()
    }
  }

  /** Runs a call and returns its response as a value; a streamed one must be read before the policy stops. */
  async run(call: CallControl): Promise<Outcome> {
    const place = this.#calls.add(call)
    try {
      return await this.pipeline.run(call)
    } finally {
      this.#calls.delete(place)
    }
  }

  /** Runs a request that is not a call; the stages do not stop before it ends. */
  async hold<T>(ask: () => Promise<T>): Promise<T> {
    const place = this.#requests.add(true)
    try {
      return await ask()
    } finally {
      this.#requests.delete(place)
    }
  }

  /** The same for a wait for a person's decision, which ends when the policy is replaced or the gateway shuts down. */
  async wait<T>(ask: (ended: AbortSignal) => T | Promise<T>): Promise<T> {
    const ended = new AbortController()
    const place = this.#waits.add(ended)
    try {
      return await this.hold(async () => ask(ended.signal))
    } finally {
      this.#waits.delete(place)
    }
  }

  /**
   * Ends streams of notifications, which do not end by themselves and which clients open again, and calls that wait for
   * a person's decision.
   */
  endStreams(): void {
    for (const call of this.#calls) {
      if (isListening(call)) call.abort('DRAINING', 'The gateway is shutting down; open the stream again.')
      else call.drain()
    }
    for (const wait of this.#waits) wait.abort()
  }

  /** The calls in progress. */
  *calls(): Iterable<Call> {
    yield* this.#calls
  }

  /** Ends calls that wait for a person's decision, now or later; their callers repeat them under the policy in force. */
  endWaits(): void {
    for (const call of this.#calls) call.drain()
    for (const wait of this.#waits) wait.abort()
  }

  /** Waits for calls to end, aborts those still running after `drainMs`, and waits for their records. */
  async drain(drainMs: number): Promise<void> {
    await this.#calls.idle(drainMs)
    for (const call of this.#calls) {
      if (call.sent === 'no') call.abort('DRAINING', 'The gateway is shutting down; ask again later.')
      else
        call.abort(
          'UPSTREAM_UNREACHABLE',
          'The gateway stopped waiting for the upstream; the call may have run.',
        )
    }
    await Promise.all([this.#calls.idle(abortedMs), this.#requests.idle(abortedMs)])
  }
}

function isListening(call: Call): boolean {
  return call.get(mcpExchange)?.method === 'GET' || call.parsedRequest?.method === LISTEN_METHOD
}

function describeServers(names: readonly string[]): string {
  const more = names.length > maxNamed ? ` and ${names.length - maxNamed} more` : ''
  return `Servers: ${names.slice(0, maxNamed).join(', ') || 'none'}${more}.`
}
