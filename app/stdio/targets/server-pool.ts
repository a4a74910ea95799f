// The processes of one target: one for all callers, or one for each session or caller, up to a number.
import type { Clock } from '@svc/core'
import { BoundedMap } from '@svc/core/store'
import { UpstreamError } from '../../upstream/response.js'
import type { StdioTarget } from './config.js'
import { RestartLimit } from './restart-limit.js'
import type { StdioServer } from './stdio-server.js'
import { unknownProgram } from './supervisor.js'

/** The state of the processes of a target. */
export interface ProcessState {
  /** `idle`: none runs, and the next call starts one. */
  readonly state: 'up' | 'starting' | 'idle' | 'down'
  readonly processes: number
  /** Why it is down, for operators. */
  readonly reason?: string
}

/** Idle time of processes that are not shared by all callers. */
const defaultIdleMs = 600_000
/** Shortest time between two searches for idle processes. */
const sweepMs = 10_000
/** Number of callers whose failed starts are remembered. */
const maxLimits = 10_000

export class ServerPool {
  readonly program = { ...unknownProgram }
  #name: string
  #target: StdioTarget
  #clock: Clock
  #servers = new Map<string, StdioServer>()
  #limits = new BoundedMap<string, RestartLimit>(maxLimits)
  #sweep: NodeJS.Timeout | undefined

  constructor(name: string, target: StdioTarget, clock: Clock) {
    this.#name = name
    this.#target = target
    this.#clock = clock
    const { isolate, start, idle_ms: idleMs = isolate === 'gateway' ? undefined : defaultIdleMs } = target
    if (idleMs === undefined || start === 'at_start') return
    this.#sweep = setInterval(() => this.#stopIdle(idleMs), Math.min(idleMs, sweepMs)).unref()
  }

  /** The server of `key`, created if there is none. */
  of(key: string, create: () => StdioServer): StdioServer {
    const known = this.#servers.get(key)
    if (known !== undefined) return known
    const server = create()
    this.#servers.set(key, server)
    return server
  }

  /**
   * To be called before one more process starts: if there are too many, the one that was idle longest ends. Throws
   * `UpstreamError` if none is idle.
   */
  makeRoom(): void {
    const running = [...this.#servers].filter(([, server]) => server.supervisor.isRunning)
    if (running.length <= this.#target.max_processes) return
    const [oldest] = running
      .filter(([, server]) => server.isIdle)
      .sort(([, one], [, other]) => one.supervisor.lastUsed - other.supervisor.lastUsed)
    if (oldest === undefined) {
      const message = `The MCP server "${this.#name}" has as many processes as it may have, and all are in use.`
      throw new UpstreamError(message, 'no')
    }
    this.#release(...oldest)
  }

  /** The limit of one caller: the failures of one do not stop the processes of another. */
  limitOf(caller: string): RestartLimit {
    const known = this.#limits.get(caller)
    if (known !== undefined) return known
    const limit = new RestartLimit(this.#target.restart, this.#clock)
    this.#limits.set(caller, limit)
    return limit
  }

  get state(): ProcessState {
    const running = [...this.#servers.values()].filter(({ supervisor }) => supervisor.isRunning)
    const processes = running.filter(({ supervisor }) => supervisor.isReady).length
    if (running.length > 0) return { state: processes > 0 ? 'up' : 'starting', processes }
    const failed = [...this.#limits.values()].find(({ hasFailed }) => hasFailed)
    if (failed === undefined) return { state: 'idle', processes }
    const reason = [failed.reason, failed.refusal()].filter((part) => part !== undefined).join('; ')
    return { state: 'down', processes, reason }
  }

  /** Lets servers that failed too often start again, and probes their programs, which may be other ones. */
  forgetFailures(): void {
    Object.assign(this.program, unknownProgram)
    for (const limit of this.#limits.values()) limit.reset()
  }

  async remove(key: string): Promise<void> {
    const server = this.#servers.get(key)
    this.#servers.delete(key)
    await server?.supervisor.close()
  }

  async close(): Promise<void> {
    clearInterval(this.#sweep)
    await Promise.all([...this.#servers.keys()].map((key) => this.remove(key)))
  }

  #stopIdle(idleMs: number): void {
    const before = this.#clock.monotonic() - idleMs
    for (const [key, server] of this.#servers) {
      if (server.isIdle && server.supervisor.lastUsed <= before) this.#release(key, server)
    }
  }

  /** Ends an idle process, and the session that has it for itself; others start it again. */
  #release(key: string, server: StdioServer): void {
    // A process that does not stop in time is killed.
    if (server.isExclusive || server.sessions === 0) void this.remove(key)
    else void server.supervisor.stop()
  }
}
