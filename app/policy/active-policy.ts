// One policy in force: its pipeline and targets. A reload creates the next; a call ends under the policy it began with.
import { type Call, type Outcome, Refusal } from '@svc/core'
import type { Pipeline } from '@svc/core/pipeline'
import { AllowedHosts } from '../http/allowed-hosts.js'
import { AllowedOrigins } from '../http/allowed-origins.js'
import { InFlight } from '../http/in-flight.js'
import { PublicUrl } from '../http/public-url.js'
import { mcpExchange } from '../mcp/exchange.js'
import { LISTEN_METHOD } from '../mcp/subject.js'
import type { CallMetrics } from '../metrics/call-metrics.js'
import { addressesOf } from '../stdio/config.js'
import { type Target, targetOf } from '../upstream/target.js'
import type { AdminAuthorizer } from './admin-authorizer.js'
import type { HostConfig } from './config.js'

/** Longest wait for the records and answers of aborted calls. */
const abortedMs = 5_000

/** The parts for an admin listener; empty where there is none. */
export interface AdminParts {
  readonly authorizer?: AdminAuthorizer | undefined
  readonly calls?: CallMetrics | undefined
}

export class ActivePolicy {
  readonly pipeline: Pipeline
  readonly publicUrl: PublicUrl
  readonly hosts: AllowedHosts
  readonly origins: AllowedOrigins
  /** Undefined where the policy has no admin section. */
  readonly authorizer: AdminAuthorizer | undefined
  readonly #metrics: CallMetrics | undefined
  readonly #targets: ReadonlyMap<string, Target>
  #calls = new InFlight<Call>()
  #requests = new InFlight<true>()

  constructor(
    pipeline: Pipeline,
    { targets, server }: Pick<HostConfig, 'targets' | 'server'>,
    { authorizer, calls }: AdminParts = {},
  ) {
    this.pipeline = pipeline
    this.publicUrl = new PublicUrl(server)
    this.hosts = new AllowedHosts(server)
    this.origins = new AllowedOrigins(server)
    this.authorizer = authorizer
    this.#metrics = calls
    this.#targets = new Map(
      Object.entries(addressesOf(targets)).map(([name, address]) => [name, targetOf(address)]),
    )
  }

  /** Throws `Refusal` (`TARGET_NOT_FOUND`). */
  target(server: string): Target {
    const target = this.#targets.get(server)
    if (target === undefined) throw new Refusal('TARGET_NOT_FOUND', 'No such server is configured.')
    return target
  }

  /** Runs a call; the stages do not stop before `answer` has written the outcome. */
  async serve(call: Call, answer: (outcome: Outcome) => Promise<void>): Promise<void> {
    const place = this.#calls.add(call)
    this.#metrics?.begin(call, this.#targets, isListening)
    try {
      await answer(await this.pipeline.run(call))
    } finally {
      this.#metrics?.end()
      this.#calls.delete(place)
    }
  }

  /** Runs a call whose answer the caller takes as a value; a streamed one must be read before the policy stops. */
  async run(call: Call): Promise<Outcome> {
    const place = this.#calls.add(call)
    try {
      return await this.pipeline.run(call)
    } finally {
      this.#calls.delete(place)
    }
  }

  /** Runs a request that is no call; the stages do not stop before it ends. */
  async hold<T>(ask: () => Promise<T>): Promise<T> {
    const place = this.#requests.add(true)
    try {
      return await ask()
    } finally {
      this.#requests.delete(place)
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
  }

  /** Waits for calls to end, aborts those still running after `drainMs`, and waits for their records. */
  async drain(drainMs: number): Promise<void> {
    await this.#calls.idle(drainMs)
    for (const call of this.#calls) {
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
