// One policy in force: its pipeline and targets. A reload makes the next one; calls end where they began.
import { type Call, type Outcome, type Pipeline, Refusal } from '@svc/core'
import { InFlight } from '../http/in-flight.js'
import { KnownHosts } from '../http/known-hosts.js'
import { Origins } from '../http/origin.js'
import { PublicUrl } from '../http/public-url.js'
import { mcpExchange } from '../mcp/exchange.js'
import { LISTEN } from '../mcp/subject.js'
import type { HostConfig } from './config.js'

/** Longest wait for the records and answers of calls that were broken off. */
const breakOffMs = 5_000

export class Generation {
  readonly pipeline: Pipeline
  readonly publicUrl: PublicUrl
  readonly hosts: KnownHosts
  readonly origins: Origins
  readonly #targets: ReadonlyMap<string, URL>
  #calls = new InFlight<Call>()

  constructor(pipeline: Pipeline, { targets, server }: Pick<HostConfig, 'targets' | 'server'>) {
    this.pipeline = pipeline
    this.publicUrl = new PublicUrl(server)
    this.hosts = new KnownHosts(server)
    this.origins = new Origins(server)
    this.#targets = new Map(Object.entries(targets).map(([name, url]) => [name, new URL(url)]))
  }

  /** Throws `Refusal` (`TARGET_NOT_FOUND`). */
  target(server: string): URL {
    const target = this.#targets.get(server)
    if (target === undefined) throw new Refusal('TARGET_NOT_FOUND', 'No such server is configured.')
    return target
  }

  /** Runs a call and keeps this generation alive until `answer` has written the outcome to its end. */
  async serve(call: Call, answer: (outcome: Outcome) => Promise<void>): Promise<void> {
    const place = this.#calls.add(call)
    try {
      await answer(await this.pipeline.run(call))
    } finally {
      this.#calls.delete(place)
    }
  }

  /** Ends the streams on which callers only listen: they never end of themselves, and clients open them anew. */
  endStreams(): void {
    for (const call of this.#calls) {
      if (isListening(call)) call.abort('DRAINING', 'The gateway is shutting down; open the stream again.')
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
    await this.#calls.idle(breakOffMs)
  }
}

function isListening(call: Call): boolean {
  return call.get(mcpExchange)?.method === 'GET' || call.understood?.method === LISTEN
}
