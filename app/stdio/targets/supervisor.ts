// Supervises the process of a server: at most one at a time, started when it is needed, restarted after it failed.
import { setTimeout as delay, setImmediate as nextTurn } from 'node:timers/promises'
import type { Clock, Logger, MaybePromise, Meter, Refusal } from '@svc/core'
import {
  isTooCostly,
  MAX_COST,
  messageOf,
  outermostMembers,
  parseExactObject,
  stringifyJson,
} from '@svc/core/json'
import { smallBytes } from '../../budget/process-budgets.js'
import { type ClientFacts, discover, performHandshake } from '../../mcp/handshake.js'
import { type Fields, tooCostly } from '../../mcp/rpc-response.js'
import type { ReceivedMessage } from '../../mcp/servers.js'
import { isUpstreamError, UpstreamError } from '../../upstream/response.js'
import { responseTooLarge } from '../../upstream/response-limits.js'
import type { StdioTarget } from './config.js'
import type { Launcher } from './launcher.js'
import type { RestartLimit } from './restart-limit.js'
import { type Connection, RpcChannel } from './rpc-channel.js'
import { ServerProcess } from './server-process.js'
import { StderrLog } from './stderr-log.js'

/** The longest time that a process has to respond to `server/discover` before `initialize` is tried, in milliseconds. */
const maxProbeMs = 10_000

export interface SupervisorOptions {
  /** The name in `targets`. */
  readonly name: string
  readonly target: StdioTarget
  /** The facts of the gateway as a client of the process. */
  readonly client: ClientFacts
  /** Whether the client sends `notifications/initialized`. */
  readonly clientAnnounces: boolean
  readonly limit: RestartLimit
  readonly program: ProgramFacts
  readonly clock: Clock
  readonly logger: Logger
  readonly meter?: Meter
  readonly maxMessageBytes: number
  readonly launcher: Launcher
  /** Called before a start. Throws `UpstreamError` if the target has as many processes as it may have. */
  makeRoom(): void
  /** Called with a request or notification that belongs to no request of a client. */
  onMessage(received: ReceivedMessage, channel: RpcChannel): void
  onStart(connection: Connection): void
  /** Called when the process has ended. */
  onExit(): void
}

/** The process accepted neither form of the handshake. */
class HandshakeRefused extends Error {
  override readonly name = 'HandshakeRefused'
}

/** One run of the process. */
interface ProcessRun {
  process?: ServerProcess
  stderr?: StderrLog
  /** The reason of its end. */
  reason?: string
  /** Whether it has not responded to the probe yet. */
  isProbed?: boolean
  /** When it completed the handshake, by the monotonic clock. */
  readyAt?: number
  /** Whether the gateway ended it. */
  isStopped?: true
  /** The refusal of a line that is over the limit. */
  refusal?: Refusal
}

export class Supervisor {
  #options: SupervisorOptions
  #run: ProcessRun | undefined
  #connection: Promise<Connection> | undefined
  #lastUsed: number
  #stopping: Promise<void> | undefined
  #isClosed = false

  constructor(options: SupervisorOptions) {
    this.#options = options
    this.#lastUsed = options.clock.monotonic()
  }

  /** Time of the last use by the monotonic clock. */
  get lastUsed(): number {
    return this.#lastUsed
  }

  get isRunning(): boolean {
    return this.#connection !== undefined
  }

  /** Whether a process has not completed the handshake yet. */
  get isStarting(): boolean {
    return this.#connection !== undefined && this.#run?.readyAt === undefined
  }

  /** Whether a process has completed the handshake. */
  get isReady(): boolean {
    return this.isRunning && !this.isStarting
  }

  touch(): void {
    this.#lastUsed = this.#options.clock.monotonic()
  }

  /** The connection to the process, which is started if none runs. Rejects with `UpstreamError`. */
  connection(): Promise<Connection> {
    this.touch()
    if (this.#connection !== undefined) return this.#connection
    const starting = this.#start()
    this.#connection = starting
    starting.catch(() => {
      if (this.#connection === starting) this.#connection = undefined
    })
    return starting
  }

  /** Ends the process group; a later call starts another. */
  stop(): Promise<void> {
    this.#connection = undefined
    if (this.#run !== undefined) this.#run.isStopped = true
    this.#stopping ??= (this.#run?.process?.stop() ?? Promise.resolve()).finally(() => {
      this.#stopping = undefined
    })
    return this.#stopping
  }

  /** Ends the process group for good. */
  close(): Promise<void> {
    this.#isClosed = true
    return this.stop()
  }

  async #start(probes = this.#probes): Promise<Connection> {
    const { name, limit, program, logger, meter, clientAnnounces } = this.#options
    const run: ProcessRun = {}
    this.#run = run
    await this.#stopping
    const refusal = this.#isClosed ? 'the gateway is closing' : limit.refusal()
    if (refusal !== undefined) throw unavailableError(name, limit.reason ?? refusal, refusal)
    this.#options.makeRoom()
    try {
      return await this.#open(run, probes)
    } catch (error) {
      // Some servers exit on a request before `initialize`, which the channel reports.
      if (run.isProbed === true && run.isStopped !== true && isUpstreamError(error)) {
        const connection = await this.#start(false)
        program.isProbeUseless = true
        return connection
      }
      const reason = run.reason ?? messageOf(error)
      // A handshake of the client's own may be refused, which is not a failure of the server.
      const isOfClient = clientAnnounces && error instanceof HandshakeRefused
      if (run.isStopped !== true && !isOfClient) {
        limit.failed(reason)
        meter?.count('svc_stdio_server_failures_total')
        logger.error({ server: name, reason, stderr: run.stderr?.last }, 'the MCP server did not start')
      }
      throw unavailableError(name, reason, isOfClient ? reason : undefined)
    }
  }

  /** The process of a single session of the handshake is opened by the revision and with the capabilities of that client. */
  get #probes(): boolean {
    return !this.#options.clientAnnounces && !this.#options.program.isProbeUseless
  }

  async #open(run: ProcessRun, probes: boolean): Promise<Connection> {
    const { name, target, client, limit, program, clock, logger } = this.#options
    const { launch, secrets } = await this.#options.launcher.prepare()
    if (run.isStopped) throw new Error('it was stopped')
    const stderr = new StderrLog(name, secrets, logger, clock)
    const maxLineBytes = Math.min(this.#options.maxMessageBytes, MAX_COST)
    const started = new ServerProcess(
      launch,
      { server: name, maxLineBytes, stopTimeoutMs: target.stop_timeout_ms },
      {
        onLine: (line) => receive(line, channel, stderr),
        onLineTooLong: () => {
          run.refusal = responseTooLarge(maxLineBytes)
        },
        onErrorLine: (line) => stderr.add(line),
        onExit: (reason) => this.#ended(run, channel, reason),
      },
    )
    const channel: RpcChannel = new RpcChannel(
      (message) => started.write(stringifyJson(message)),
      (received) => this.#options.onMessage(received, channel),
    )
    run.process = started
    run.stderr = stderr
    const timeout = AbortSignal.timeout(target.start_timeout_ms)
    try {
      const { clientAnnounces } = this.#options
      const announces = !clientAnnounces
      const send = channel.sendingOwn(timeout)
      const found = probes ? await this.#probe(run, send) : undefined
      const server = found ?? (await performHandshake(send, client, announces)).session
      if (server === undefined)
        throw new HandshakeRefused('it responded to neither initialize nor server/discover with a result')
      // It has responded to `initialize`, which came later.
      if (run.isProbed === true && !server.isStateless) program.isProbeUseless = true
      if (clientAnnounces) program.isStatelessAlone = server.isStateless
      else program.isHandshakeAlone = !server.isStateless
      run.readyAt = clock.monotonic()
      this.touch()
      limit.started()
      logger.info({ server: name, pid: started.pid, revision: server.revision }, 'the MCP server has started')
      const { ended } = started
      const connection = { channel, server, ended, kill: (why: string) => started.kill(why) }
      this.#options.onStart(connection)
      return connection
    } catch (error) {
      if (timeout.aborted)
        run.reason = `it did not complete the handshake within ${target.start_timeout_ms} ms`
      started.kill('its handshake failed')
      throw error
    }
  }

  /** The session if the process speaks 2026-07-28; undefined if not, or if it does not say so in time. */
  #probe(
    run: ProcessRun,
    send: ReturnType<RpcChannel['sendingOwn']>,
  ): Promise<Connection['server'] | undefined> {
    const { client, target } = this.#options
    run.isProbed = true
    const probing = discover(send, client).then(({ session }) => {
      run.isProbed = false
      return session
    })
    const waitMs = Math.min(maxProbeMs, target.start_timeout_ms / 2)
    return Promise.race([probing, delay(waitMs, undefined, { ref: false })])
  }

  #ended(run: ProcessRun, channel: RpcChannel, reason: string): void {
    const { name, limit, clock, logger, meter } = this.#options
    run.reason ??= reason
    const { readyAt, isStopped, stderr } = run
    if (this.#run === run) {
      this.#run = undefined
      if (isStopped !== true && readyAt !== undefined) this.#connection = undefined
    }
    if (isStopped) logger.info({ server: name }, 'the MCP server was stopped')
    else if (readyAt !== undefined) {
      limit.failed(reason, clock.monotonic() - readyAt)
      meter?.count('svc_stdio_server_failures_total')
      logger.error({ server: name, reason, stderr: stderr?.last }, 'the MCP server has exited')
    }
    if (run.refusal !== undefined) channel.refuse(run.refusal)
    channel.close(`The MCP server "${name}" has ended.`, new Error(run.reason))
    if (readyAt !== undefined) this.#options.onExit()
  }
}

function receive(line: string, channel: RpcChannel, stderr: StderrLog): MaybePromise<void> {
  if (line.length > smallBytes) return receiveInTurns(line, channel, stderr)
  if (isTooCostly(line)) refuse(line, channel)
  else accept(parseExactObject(line), line, channel, stderr)
}

/** Reads a large line in several turns of the event loop, so that others are served meanwhile. */
async function receiveInTurns(line: string, channel: RpcChannel, stderr: StderrLog): Promise<void> {
  await nextTurn()
  const isRefused = isTooCostly(line)
  await nextTurn()
  const message = isRefused ? undefined : parseExactObject(line)
  await nextTurn()
  if (isRefused) refuse(line, channel)
  else accept(message, line, channel, stderr)
}

function refuse(line: string, channel: RpcChannel): void {
  const { jsonrpc, id, method } = outermostMembers(Buffer.from(line), ['jsonrpc', 'id', 'method'])
  if (jsonrpc === '2.0' && method === undefined) channel.refuse(tooCostly(), id)
}

function accept(message: Fields | undefined, line: string, channel: RpcChannel, stderr: StderrLog): void {
  const { jsonrpc, method = '' } = message ?? {}
  if (message !== undefined && jsonrpc === '2.0' && typeof method === 'string') channel.receive(message, line)
  else stderr.add(`(standard output, no message) ${line}`)
}

/** `reason` may name paths and packages: it is for the operator. Callers get `hint`. */
function unavailableError(name: string, reason: string, hint?: string): UpstreamError {
  const message = `The MCP server "${name}" is not running${hint === undefined ? '' : `: ${hint}`}.`
  return new UpstreamError(message, 'no', { cause: new Error(reason) })
}

/** What the starts of a target's processes have shown of its program. */
export interface ProgramFacts {
  /** Whether it exited on `server/discover`, or ignored it, so that it is opened by `initialize` at once. */
  isProbeUseless: boolean
  /** Whether it was opened by `initialize` although 2026-07-28 was tried first. */
  isHandshakeAlone: boolean
  /** Whether it was opened by 2026-07-28 although `initialize` was tried first. */
  isStatelessAlone: boolean
}

export const unknownProgram: ProgramFacts = {
  isProbeUseless: false,
  isHandshakeAlone: false,
  isStatelessAlone: false,
}
