// What the gateway knows about the reachability of servers, for all of its clients: nobody waits for a server that did not
// respond, and one that failed is tried again after growing times.
import type { Clock, Outcome } from '@svc/core'
import { BoundedMap } from '@svc/core/store'

/** Time after each failure in a row before lists ask the server again, in milliseconds; the last one repeats. */
const backOffMs = [10_000, 30_000, 60_000, 120_000, 300_000] as const
const maxServers = 10_000

interface Trouble {
  readonly failures: number
  /** Monotonic time, in milliseconds. */
  readonly until: number
  readonly reason: string
}

export class ServerHealth {
  #clock: Pick<Clock, 'monotonic'>
  /** By server; one that responds has no entry. */
  #troubles = new BoundedMap<string, Trouble>(maxServers)

  constructor(clock: Pick<Clock, 'monotonic'>) {
    this.#clock = clock
  }

  /** Whether the server did not respond the last time, so that nobody waits for it. */
  isInTrouble(server: string): boolean {
    return this.#troubles.has(server)
  }

  /** The reason for which lists do not ask the server now; undefined if they may. */
  backingOff(server: string): string | undefined {
    const trouble = this.#troubles.get(server)
    return trouble !== undefined && this.#clock.monotonic() < trouble.until ? trouble.reason : undefined
  }

  /** A client has waited for the server as long as it may. */
  noteSlow(server: string): void {
    if (!this.#troubles.has(server)) this.#troubles.set(server, { failures: 0, until: 0, reason: '' })
  }

  /** Learns from a call of the server. A call that was not sent, or that its client ended, tells nothing. */
  observe(server: string, outcome: Outcome): void {
    if (outcome.kind === 'completed') this.#troubles.delete(server)
    else if (outcome.kind === 'failed' && outcome.code === 'UPSTREAM_UNREACHABLE')
      this.#noteFailure(server, outcome.message)
  }

  /** Calls that fail while the server is left alone are not further attempts. */
  #noteFailure(server: string, reason: string): void {
    if (this.backingOff(server) !== undefined) return
    const failures = (this.#troubles.get(server)?.failures ?? 0) + 1
    const ms = backOffMs[Math.min(failures, backOffMs.length) - 1] ?? 0
    this.#troubles.set(server, { failures, until: this.#clock.monotonic() + ms, reason })
  }
}
