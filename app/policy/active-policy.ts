// One policy in force: its pipeline and targets. A reload makes the next one; calls end where they began.
import { type Call, type Outcome, Refusal } from '@svc/core'
import type { Pipeline } from '@svc/core/pipeline'
import { AllowedHosts } from '../http/allowed-hosts.js'
import { AllowedOrigins } from '../http/allowed-origins.js'
import { InFlight } from '../http/in-flight.js'
import { PublicUrl } from '../http/public-url.js'
import { mcpExchange } from '../mcp/exchange.js'
import { LISTEN_METHOD } from '../mcp/subject.js'
import type { CallMetrics } from '../metrics/call-metrics.js'
import { type Target, targetOf } from '../upstream/target.js'
import type { AdminAuthorizer } from './admin-authorizer.js'
import type { HostConfig } from './config.js'

/** Longest wait for the records and answers of calls that were broken off. */
const breakOffMs = 5_000

/** What an admin listener needs of a policy; nothing where there is none. */
export interface Watch {
  readonly authorizer?: AdminAuthorizer | undefined
  readonly calls?: CallMetrics | undefined
}

export class ActivePolicy {
  readonly pipeline: Pipeline
  readonly publicUrl: PublicUrl
  readonly hosts: AllowedHosts
  readonly origins: AllowedOrigins
  /** Who may do what on the admin listener; undefined where the policy has none. */
  readonly authorizer: AdminAuthorizer | undefined
  readonly #metrics: CallMetrics | undefined
  readonly #targets: ReadonlyMap<string, Target>
  #calls = new InFlight<Call>()
  #asking = new InFlight<true>()

  constructor(
    pipeline: Pipeline,
    { targets, server }: Pick<HostConfig, 'targets' | 'server'>,
    { authorizer, calls }: Watch = {},
  ) {
    this.pipeline = pipeline
    this.publicUrl = new PublicUrl(server)
    this.hosts = new AllowedHosts(server)
    this.origins = new AllowedOrigins(server)
    this.authorizer = authorizer
    this.#metrics = calls
    this.#targets = new Map(Object.entries(targets).map(([name, url]) => [name, targetOf(url)]))
  }

  /** Throws `Refusal` (`TARGET_NOT_FOUND`). */
  target(server: string): Target {
    const target = this.#targets.get(server)
    if (target === undefined) throw new Refusal('TARGET_NOT_FOUND', 'No such server is configured.')
    return target
  }

  /** Runs a call and keeps this policy in use until `answer` has written the outcome to its end. */
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

  /** Keeps this policy in use while something that is no call asks its stages. */
  async hold<T>(ask: () => Promise<T>): Promise<T> {
    const place = this.#asking.add(true)
    try {
      return await ask()
    } finally {
      this.#asking.delete(place)
    }
  }

  /**
   * Ends the streams on which callers only listen, as they never end of themselves and clients open them anew, and the
   * waiting for people, who take their time.
   */
  endStreams(): void {
    for (const call of this.#calls) {
      if (isListening(call)) call.abort('DRAINING', 'The gateway is shutting down; open the stream again.')
      else call.drain()
    }
  }

  /** Waits for calls to end, breaks off those still running after `drainMs`, and waits for their records. */
  async drain(drainMs: number): Promise<void> {
    await this.#calls.idle(drainMs)
    for (const call of this.#calls) {
      call.abort(
        'UPSTREAM_UNREACHABLE',
        'The gateway stopped waiting for the upstream; the call may have run.',
      )
    }
    await Promise.all([this.#calls.idle(breakOffMs), this.#asking.idle(breakOffMs)])
  }
}

function isListening(call: Call): boolean {
  return call.get(mcpExchange)?.method === 'GET' || call.parsedRequest?.method === LISTEN_METHOD
}
