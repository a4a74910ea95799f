// The processes of one target: one for all callers, or one for each session or caller, up to a number.
import type { Clock } from '@svc/core'
import { UpstreamError } from '../upstream/answer.js'
import type { StdioTarget } from './config.js'
import { RestartLimit } from './restart-limit.js'
import type { StdioServer } from './stdio-server.js'

/** Of processes that many callers or sessions do not share with all. */
const defaultIdleMs = 600_000
/** How often idle processes are looked for, at most. */
const sweepMs = 10_000
/** Callers whose processes failed lately, each with its own wait. */
const maxLimits = 10_000

export class ServerPool {
  #name: string
  #target: StdioTarget
  #clock: Clock
  #servers = new Map<string, StdioServer>()
  #limits = new Map<string, RestartLimit>()
  #sweep: NodeJS.Timeout | undefined

  constructor(name: string, target: StdioTarget, clock: Clock) {
    this.#name = name
    this.#target = target
    this.#clock = clock
    const { isolate, start, idle_ms: idleMs = isolate === 'gateway' ? undefined : defaultIdleMs } = target
    if (idleMs === undefined || start === 'at_start') return
    this.#sweep = setInterval(() => this.#stopIdle(idleMs), Math.min(idleMs, sweepMs)).unref()
  }

  /**
   * The server of `key`, created where there is none. Where there are as many as there may be, the one that was idle longest
   * ends. Throws `UpstreamError` where none is idle.
   */
  of(key: string, create: () => StdioServer): StdioServer {
    const known = this.#servers.get(key)
    if (known !== undefined) return known
    if (this.#servers.size >= this.#target.max_processes) this.#makeRoom()
    const server = create()
    this.#servers.set(key, server)
    return server
  }

  /** Of one caller: the failures of one do not stop the processes of another. */
  limitOf(caller: string): RestartLimit {
    const known = this.#limits.get(caller)
    if (known !== undefined) return known
    const [oldest] = this.#limits.keys()
    if (oldest !== undefined && this.#limits.size >= maxLimits) this.#limits.delete(oldest)
    const limit = new RestartLimit(this.#target.restart, this.#clock)
    this.#limits.set(caller, limit)
    return limit
  }

  /** Servers that failed too often may start again. */
  forgetFailures(): void {
    this.#limits.clear()
  }

  async remove(key: string): Promise<void> {
    const server = this.#servers.get(key)
    this.#servers.delete(key)
    await server?.close()
  }

  async close(): Promise<void> {
    clearInterval(this.#sweep)
    await Promise.all([...this.#servers.keys()].map((key) => this.remove(key)))
  }

  #stopIdle(idleMs: number): void {
    const before = this.#clock.monotonic() - idleMs
    for (const [key, server] of this.#servers) {
      if (!server.isIdle || server.lastUsed > before) continue
      // A server that does not stop in time is killed.
      void (this.#target.isolate === 'gateway' ? server.stop() : this.remove(key))
    }
  }

  #makeRoom(): void {
    const idle = [...this.#servers].filter(([, server]) => server.isIdle)
    const [first, ...others] = idle
    if (first === undefined) {
      const message = `The MCP server "${this.#name}" has as many processes as it may have, and all are in use.`
      throw new UpstreamError(message, 'no')
    }
    const [key] = others.reduce((oldest, one) => (one[1].lastUsed < oldest[1].lastUsed ? one : oldest), first)
    void this.remove(key)
  }
}
